"""verl's console lines `step:12 - critic/score/mean:0.34 - ...`, with colours, prefixes and broken lines."""

from __future__ import annotations

import re

from scalerl.record.columns import Columns, Wanted

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_START = re.compile(r"(?:^|[\s)\]])step:(\d+) - ")
_PREFIX = re.compile(r"^\s*(?:\([^()]{1,120}\))+\s?")
_GOES_ON = re.compile(r"^[^\s:{}\"']{0,80}(?::\S{1,40})? - [\w./@-]+:\S")
_PAIR_START = re.compile(r"^- [\w./@-]+:\S")
_LINES_APART = 5


class VerlConsole:
    """Collects the metric lines of verl and its forks; a broken one is joined with its other half."""

    name = "verl console log"

    def __init__(self, wanted: Wanted) -> None:
        self.columns = Columns(wanted)
        self.joined = 0
        self._step: str | None = None
        self._pending = ""
        self._age = 0

    def feed(self, line: str) -> bool:
        """Take the next line of the log; say if it is a line of metrics."""
        if "step:" in line and (match := _START.search(line)):
            self._close()
            self._step, self._pending, self._age = match[1], line[match.end() :], 0
            return True
        if self._step is not None:
            self._age += 1
            self._join(line)
            if self._age >= _LINES_APART:
                self._close()
        return False

    def _join(self, line: str) -> None:
        if " - " not in line and not line.lstrip().startswith("- "):
            return
        clean = _ANSI.sub("", line) if "\x1b" in line else line
        body = _PREFIX.sub("", clean)
        if _GOES_ON.match(body) or _PAIR_START.match(body.lstrip()):
            glue = "" if body.startswith(" ") or not body.startswith("- ") else " "
            self._pending = self._pending.rstrip("\r\n") + glue + body
            self.joined += 1
            self._age = 0

    def _close(self) -> None:
        if self._step is None:
            return
        text = _ANSI.sub("", self._pending) if "\x1b" in self._pending else self._pending
        columns = self.columns
        columns.wants("step")
        columns.put("step", float(self._step))
        pairs = []
        for part in text.split(" - "):
            name, _, value = part.rpartition(":")
            if name and columns.wants(name):
                pairs.append((name.strip(), value))
        columns.add(pairs)
        self._step = None

    def finish(self, whole: bool) -> int:
        """End of the log; a torn last line loses its last pair, which may be cut. Returns rows."""
        if self._step is not None and not whole:
            self._pending = self._pending.rpartition(" - ")[0]
        self._close()
        return self.columns.rows
