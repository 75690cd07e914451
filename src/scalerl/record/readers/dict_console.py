"""Python dicts printed to a console: TRL and transformers (`{'loss': 0.1, 'reward': '0.3'}`), slime, SkyRL.

The dicts are taken apart at their commas and quotes; nothing is evaluated.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from itertools import pairwise

from scalerl.record.columns import Columns, Wanted
from scalerl.record.fields import role_of
from scalerl.record.numbers import parse_number

_BAR = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[")
_NUMBERED = re.compile(r"\b(rollout|eval|step|iteration|iter)\s*[#:]?\s*(\d{1,12})\s*:\s*$", re.IGNORECASE)
_TELLING = ("reward", "score", "accuracy", "eval", "loss", "pass")


class DictConsole:
    """Collects dicts of metrics. Without a step of their own, a progress bar's count or their own serves."""

    name = "TRL console log"

    def __init__(self, wanted: Wanted) -> None:
        self.columns = Columns(wanted)
        self.torn = 0
        self._named = wanted.y
        self._bar = (0, 0)
        self._bars: list[tuple[int, int]] = []
        self._totals: Counter[int] = Counter()
        self._training = 0
        self._counted = array("q")
        self._own_step = False

    def feed(self, line: str) -> bool:
        """Take the next line of the log (a carriage return ended the one before); say if it held metrics."""
        if " [" in line and "/" in line and "<" in line and (bars := _BAR.findall(line)):
            self._bar = (int(bars[-1][0]), int(bars[-1][1]))
        start = line.find("{'")
        if start < 0 or not any(word in line for word in _TELLING):
            return False
        end = line.rfind("}")
        if end < start:
            self.torn += 1
            return False
        wants = self.columns.wants
        pairs = []
        for part in line[start + 2 : end].split(", '"):
            name, _, value = part.partition("': ")
            if value and wants(name):
                pairs.append((name, value))
        if any(self._is_rate(name, value) for name, value in pairs):
            self._take(pairs, line[:start])
            return True
        return False

    def _is_rate(self, name: str, value: str) -> bool:
        """Whether a pair tells a pass rate or reward: a dict without any is a configuration or a summary."""
        known = name == self._named or role_of(name) in ("held_out", "unstated", "train")
        return known and parse_number(value) is not None

    def _take(self, pairs: list[tuple[str, str]], before: str) -> None:
        columns = self.columns
        names = {name for name, _ in pairs}
        if numbered := _NUMBERED.search(before[-60:]):
            columns.wants("step")
            columns.put("step", float(numbered[2]))
            self._own_step = True
        elif names & {"step", "global_step"}:
            self._own_step = True
        evaluation = any(name.startswith("eval") for name in names)
        self._training += 0 if evaluation else 1
        self._counted.append(max(1, self._training))
        self._bars.append(self._bar)
        self._totals[self._bar[1]] += 1
        columns.add(pairs)

    def finish(self, whole: bool) -> int:
        """End of the log: settle what the step of each dict is. Returns rows."""
        del whole
        return self.columns.rows

    def steps(self) -> tuple[list[int], str] | None:
        """The step of each row and how it is known; None where the dicts name their own."""
        if self._own_step:
            return None
        total = self._totals.most_common(1)[0][0] if self._totals else 0
        bars = [count for count, of in self._bars if of == total]
        rising = all(b > a for a, b in pairwise(bars))
        if total and len(bars) == len(self._bars) and self._training == len(bars) and rising:
            return bars, f"no step in the log: steps from its progress bar (of {total})"
        if not self._training:
            return list(
                range(1, len(self._bars) + 1)
            ), "no step in the log: its lines are counted as steps 1, 2, ..."
        return list(self._counted), "no step in the log: its training lines are counted as steps 1, 2, ..."
