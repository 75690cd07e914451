"""Python dicts printed to a console: TRL and transformers (`{'loss': 0.1, 'reward': '0.3'}`), slime, SkyRL.

The dicts are taken apart at their commas and quotes; nothing is evaluated.
"""

from __future__ import annotations

import re

import numpy as np

from scalerl.record.column import Floats
from scalerl.record.columns import Columns
from scalerl.record.fields import RATES, role_of
from scalerl.record.numbers import parse_number

_BAR = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[")
_NUMBERED = re.compile(r"\b(rollout|eval|step|iteration|iter)\s*[#:]?\s*(\d{1,12})\s*:\s*$", re.IGNORECASE)
_TELLING = re.compile("reward|score|accuracy|eval|loss|pass")
_FROM_BAR, _COUNTED = "(steps of the progress bar)", "(training lines counted)"


class DictConsole:
    """Collects dicts of metrics. Without a step of their own, a progress bar's count or their own serves."""

    name = "TRL console log"

    def __init__(self, columns: Columns, named: str | None) -> None:
        self.columns = columns
        self.torn = 0
        self._named = named
        self._bar = (0, 0)
        self._total: int | None = None  # of the progress bar, while all rows have the same
        self._one_bar = True
        self._rising_from = -1
        self._training = 0
        self._own_step = False

    def feed(self, line: str) -> bool:
        """Take the next line of the log (a carriage return ended the one before); say if it held metrics."""
        if " [" in line and "/" in line and "<" in line and (bars := _BAR.findall(line)):
            self._bar = (int(bars[-1][0]), int(bars[-1][1]))
        pairs = self.parse(line)
        if pairs is None:
            start = line.find("{'")
            self.torn += start >= 0 and line.rfind("}") < start and _TELLING.search(line) is not None
            return False
        self._note([name for name, _ in pairs], 1)
        self.columns.add(pairs)
        return True

    def parse(self, line: str) -> list[tuple[str, str]] | None:
        """The fields of use in a line with a whole dict of metrics, and the step before it, if any."""
        start = line.find("{'")
        end = line.rfind("}")
        if start < 0 or end < start or not _TELLING.search(line):
            return None
        wants = self.columns.wants
        pairs = []
        for part in line[start + 2 : end].split(", '"):
            name, _, value = part.partition("': ")
            if value and wants(name):
                pairs.append((name, value))
        if not any(self._is_rate(name, value) for name, value in pairs):
            return None
        if numbered := _NUMBERED.search(line[max(0, start - 60) : start]):
            pairs.insert(0, ("step", numbered[2]))
            wants("step")
        return pairs

    def _is_rate(self, name: str, value: str) -> bool:
        """Whether a pair tells a pass rate or reward: a dict without any is a configuration or a summary."""
        known = name == self._named or role_of(name) in RATES
        return known and parse_number(value) is not None

    def take(self, names: list[str], values: list[Floats]) -> None:
        """Take the next rows [n], of lines with these fields."""
        count = len(values[0])
        self._note(names, count)
        for name, numbers in zip(names, values, strict=True):
            self.columns.put_rows(name, numbers)
        self.columns.end_row(count)

    def _note(self, names: list[str], count: int) -> None:
        """Note what may serve as the step of the next rows, should the log have none of its own."""
        self._own_step = self._own_step or "step" in names or "global_step" in names
        if self._own_step:
            return
        first = self._training + 1
        if any(name.startswith("eval") for name in names):
            self._one_bar = False
            counted = np.full(count, max(1.0, self._training))
        else:
            self._training += count
            counted = np.arange(first, first + count, dtype=np.float64)
        done, total = self._bar
        self._total = total if self._total is None else self._total
        self._one_bar &= total == self._total and done > self._rising_from and count == 1
        self._rising_from = done
        if count == 1:
            self.columns.put(_COUNTED, float(counted[0]))
            self.columns.put(_FROM_BAR, float(done))
        else:
            self.columns.put_rows(_COUNTED, counted)
            self.columns.put_rows(_FROM_BAR, np.full(count, float(done)))

    def finish(self, whole: bool) -> int:
        """End of the log. Returns rows."""
        del whole
        return self.columns.rows

    def settle_steps(self) -> list[str]:
        """Settle what each dict's step is, and say how it is known; nothing where they name their own."""
        if self._own_step:
            return []
        if self._total and self._one_bar:
            self.columns.rename(_FROM_BAR, "step")
            return [f"no step in the log: steps from its progress bar (of {self._total})"]
        if self._training:
            self.columns.rename(_COUNTED, "step")
            return ["no step in the log: its training lines are counted as steps 1, 2, ..."]
        self.columns.get(_COUNTED).count_rows()
        self.columns.rename(_COUNTED, "step")
        return ["no step in the log: its lines are counted as steps 1, 2, ..."]
