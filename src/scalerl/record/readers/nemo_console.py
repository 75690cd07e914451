"""NeMo-RL's console: blocks `==== Step 7/50 ====` with `* Avg Reward:` and validations with `* Accuracy:`."""

from __future__ import annotations

import re

from scalerl.record.columns import Columns

_STEP = re.compile(r"=====* Step (\d+)(?:/\d+)? =====*")
_BULLET = re.compile(
    r"^\s*[•*-]\s*(Avg Reward|Accuracy|Total step time|Samples processed)\s*:\s*([-+\d.,eE]+)\s*(s?)"
)
_NAMES = {
    "Avg Reward": "Avg Reward",
    "Accuracy": "validation/accuracy",
    "Total step time": "Total step time",
    "Samples processed": "validation/num_samples",
}


class NemoConsole:
    """Collects NeMo-RL's step blocks; a validation belongs to the step in whose block it is printed."""

    name = "NeMo-RL console log"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._step: float | None = None
        self._row: dict[str, str] = {}

    def feed(self, line: str) -> None:
        """Take the next line of the log."""
        if "Step " in line and "====" in line and (match := _STEP.search(line)):
            self._close()
            self._step = float(match[1])
        elif self._step is not None and ":" in line and (found := _BULLET.match(line)):
            self._row.setdefault(_NAMES[found[1]], found[2])

    def telling(self, line: str) -> bool:
        """Whether the line is one of NeMo-RL's, for itself."""
        return _STEP.search(line) is not None or _BULLET.match(line) is not None

    def _close(self) -> None:
        if self._step is not None and self._row:
            self.columns.wants("step")
            self.columns.put("step", self._step)
            self.columns.add(self._row.items())
        self._row = {}

    def finish(self, whole: bool) -> int:
        """End of the log. Returns rows."""
        del whole
        self._close()
        self._step = None
        return self.columns.rows
