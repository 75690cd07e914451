"""Home-made console lines with a step and pairs: `[Step 3/300] loss=7.70 reward_avg=0.250`."""

from __future__ import annotations

import re

from scalerl.record.column import Floats
from scalerl.record.columns import Columns

_STEP = re.compile(
    r"\b(?:global[_ ]?step|step|iteration|iter|update)\b[\s:=#]{0,4}(\d{1,12})(?:\s*/\s*\d{1,12})?",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?<![\w/@.-])([A-Za-z_][\w/@.-]{0,120})\s?[=:]\s?([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan)%?)(?=[\s,;|)\]]|$)"
)


class PairsConsole:
    """Collects lines that name a step and at least one field of use with its value."""

    name = "console log of step and name=value pairs"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def feed(self, line: str) -> None:
        """Take the next line of the log."""
        if (pairs := self.parse(line)) is not None:
            self.columns.add(pairs)

    def parse(self, line: str) -> list[tuple[str, str]] | None:
        """The step and the fields of use of a line; None where it lacks either."""
        if len(line) > 4000 or ("=" not in line and ":" not in line):
            return None
        low = line[:400].lower()
        if "step" not in low and "iter" not in low and "update" not in low:
            return None
        match = _STEP.search(line)
        if not match:
            return None
        pairs = [(name, value) for name, value in _PAIR.findall(line) if self._useful(name)]
        if not pairs:
            return None
        self.columns.wants("step")
        return [("step", match[1]), *pairs]

    def take(self, names: list[str], values: list[Floats]) -> None:
        """Take the next rows [n], of lines with these fields."""
        for name, numbers in zip(names, values, strict=True):
            self.columns.put_rows(name, numbers)
        self.columns.end_row(len(values[0]))

    def _useful(self, name: str) -> bool:
        return self.columns.wants(name) and name.lower() not in (
            "step",
            "iter",
            "iteration",
            "update",
            "global_step",
        )

    def finish(self, whole: bool) -> int:
        """End of the log. Returns rows."""
        del whole
        return self.columns.rows
