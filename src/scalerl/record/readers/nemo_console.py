"""NeMo-RL's console: blocks `==== Step 7/50 ====` with `* Avg Reward:` and validations with `* Accuracy:`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from scalerl.record.column import Floats, Ints
from scalerl.record.columns import Columns, as_number

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
_SPACE = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"  # what \s and \d are to Python, in the words of RE2
_DIGIT = r"\p{Nd}"
_STEP_RE2 = _STEP.pattern.replace(r"(\d+)", rf"(?P<step>{_DIGIT}+)").replace(r"\d", _DIGIT)
_BULLET_RE2 = (
    rf"^{_SPACE}*[•*-]{_SPACE}*(?P<name>{'|'.join(_NAMES)}){_SPACE}*:{_SPACE}*(?P<value>[-+{_DIGIT}.,eE]+)"
)
_PLAIN_STEP = r"^====+ Step (?P<step>[0-9]+)(?:/[0-9]+)? ====+$"  # mostly it's this and nothing else
_PLAIN_BULLET = (
    rf"^[ \t]*[•*-][ \t]*(?P<name>{'|'.join(_NAMES)})[ \t]*:[ \t]*(?P<value>[-+0-9.,eE]+)"
    r"(?:[^-+0-9.,eE\x{80}-\x{10FFFF}]|$)"
)
_TELLING = "==== Step |" + "|".join(_NAMES)


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

    def feed_block(self, block: str) -> None:
        """Take the next lines of the log together: what is between two step lines is found by Arrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        lines = pc.list_flatten(pc.split_pattern(pa.array([block], pa.large_string()), "\n"))
        lines = lines.filter(pc.match_substring_regex(lines, _TELLING))
        heading = np.flatnonzero(pc.match_substring(lines, "==== Step ").to_numpy(zero_copy_only=False))
        heads, (steps,) = _extract(lines, heading, _PLAIN_STEP, _STEP_RE2)
        others = np.ones(len(lines), bool)
        others[heads] = False
        found, (names, values) = _extract(lines, np.flatnonzero(others), _PLAIN_BULLET, _BULLET_RE2)
        first, last = np.searchsorted(found, heads[[0, -1]]) if len(heads) else (len(found), len(found))
        self._feed_some(lines, [*found[:first], *heads[:1]])
        if len(heads) > 1:
            self._close()
            names, values = (part.slice(first, last - first) for part in (names, values))
            step = _floats(steps, "step")[1]
            block_of = np.searchsorted(heads, found[first:last], side="right") - 1
            self._store(step, block_of, names.to_numpy(zero_copy_only=False), values)
            self._feed_some(lines, heads[-1:])
        self._feed_some(lines, found[last:])

    def _feed_some(self, lines: Any, chosen: Iterable[int]) -> None:
        for at in chosen:
            self.feed(lines[int(at)].as_py())

    def _store(self, step: Floats, block: Ints, names: Any, values: Any) -> None:
        """Store whole blocks: the step of each, and of each value [n] its block, its name and its text."""
        blocks, rows = np.unique(block, return_inverse=True)
        if not len(blocks):
            return
        self.columns.wants("step")
        self.columns.put_rows("step", step[blocks])
        for name, field in _NAMES.items():
            mine = np.flatnonzero(names == name)
            mine = mine[np.append(True, np.diff(rows[mine]) > 0)[: len(mine)]]  # the first of a block counts
            if len(mine) and self.columns.wants(field):
                good, numbers = _floats(values.take(mine), field)
                self.columns.put_rows(field, numbers, rows[mine[good]])
        self.columns.end_row(len(blocks))

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


def _extract(lines: Any, chosen: Ints, plain: str, thorough: str) -> tuple[Ints, list[Any]]:
    """Which of the chosen lines match, and their groups' texts; those that are `plain` are found faster."""
    import pyarrow as pa
    import pyarrow.compute as pc

    asked = lines if len(chosen) == len(lines) else lines.take(pa.array(chosen))
    matched = pc.extract_regex(asked, plain)
    if not matched.null_count:
        return chosen, list(matched.flatten())
    unlike = matched.is_null()
    rest = pc.extract_regex(asked.filter(unlike), thorough)
    parts = [
        pc.replace_with_mask(some, unlike, others)
        for some, others in zip(matched.flatten(), rest.flatten(), strict=True)
    ]
    good = parts[0].is_valid()
    return chosen[good.to_numpy(zero_copy_only=False)], [part.filter(good) for part in parts]


def _floats(texts: Any, field: str) -> tuple[Ints, Floats]:
    """Which of some texts are numbers [n], and the numbers [n]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return np.arange(len(texts)), pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = [as_number(text, field) for text in texts.to_pylist()]
        good = [at for at, number in enumerate(numbers) if number is not None]
        return np.array(good, np.int64), np.array([numbers[at] for at in good], np.float64)
