"""verl's console lines `step:12 - critic/score/mean:0.34 - ...`, with colours, prefixes and broken lines."""

from __future__ import annotations

import re

from scalerl.record.column import Floats
from scalerl.record.columns import Columns

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_START = re.compile(r"(?:^|[\s)\]])step:(\d+) - ")
_PREFIX = re.compile(r"^\s*(?:\([^()]{1,120}\))+\s?")
_GOES_ON = re.compile(r"^[^\s:{}\"']{0,80}(?::\S{1,40})? - [\w./@-]+:\S")
_PAIR_START = re.compile(r"^- [\w./@-]+:\S")
_LINES_APART = 5


class VerlConsole:
    """Collects the metric lines of verl and its forks; a broken one is joined with its other half."""

    name = "verl console log"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.joined = 0
        self._step: str | None = None
        self._pending = ""
        self._age = 0

    @property
    def held(self) -> bool:
        """Whether a line waits for its other half."""
        return self._step is not None

    def feed(self, line: str) -> bool:
        """Take the next line of the log; say if it is a line of metrics."""
        if "step:" in line and (match := _START.search(line)):
            self.close()
            self._step, self._pending, self._age = match[1], line[match.end() :], 0
            return True
        if self._step is not None:
            self._age += 1
            self._join(line)
            if self._age >= _LINES_APART:
                self.close()
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

    def close(self) -> None:
        """Store the line that was held for its other half."""
        if self._step is None:
            return
        self.columns.add(self._pairs(self._step, self._pending))
        self._step = None

    def parse(self, line: str) -> list[tuple[str, str]] | None:
        """The step and the fields of use of a line that is whole; None for other lines."""
        match = _START.search(line) if "step:" in line else None
        return None if match is None else self._pairs(match[1], line[match.end() :])

    def _pairs(self, step: str, text: str) -> list[tuple[str, str]]:
        wants = self.columns.wants
        wants("step")
        pairs = [("step", step)]
        for part in (_ANSI.sub("", text) if "\x1b" in text else text).split(" - "):
            name, _, value = part.rpartition(":")
            if name and wants(name):
                pairs.append((name.strip(), value))
        return pairs

    def take(self, names: list[str], values: list[Floats]) -> None:
        """Take the next rows [n], of lines with these fields."""
        for name, numbers in zip(names, values, strict=True):
            self.columns.put_rows(name, numbers)
        self.columns.end_row(len(values[0]))

    def finish(self, whole: bool) -> int:
        """End of the log; a torn last line loses its last pair, which may be cut. Returns rows."""
        if self._step is not None and not whole:
            self._pending = self._pending.rpartition(" - ")[0]
        self.close()
        return self.columns.rows
