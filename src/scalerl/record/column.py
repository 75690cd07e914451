"""One field of a foreign log: its values and the rows they are of; what thinning took away is summed up."""

from __future__ import annotations

import math
from array import array

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Column:
    """Values [n], NaN included, with their row numbers [n] in growing order, appended as they are read."""

    __slots__ = ("_ordinals", "at", "high", "low", "removed", "removed_nan", "values")

    def __init__(self) -> None:
        self.at = array("q")
        self.values = array("d")
        self._ordinals = np.zeros(0, np.int64)
        self.removed = 0
        self.removed_nan = 0
        self.low, self.high = math.inf, -math.inf

    def append(self, row: int, value: float) -> None:
        """Add a value of a row."""
        self.at.append(row)
        self.values.append(value)

    def extend(self, rows: Ints, values: Floats) -> None:
        """Add values [n] of rows [n], which follow those that are here."""
        if len(rows):
            self.at.frombytes(np.ascontiguousarray(rows, np.int64).data.cast("B"))
            self.values.frombytes(np.ascontiguousarray(values, np.float64).data.cast("B"))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def seen(self) -> int:
        """How many values the log has, those that were thinned out included."""
        return len(self.at) + self.removed

    def rows(self) -> Ints:
        """Row numbers [n], a copy."""
        return np.array(self.at, dtype=np.int64)

    def numbers(self) -> Floats:
        """Values [n], a copy."""
        return np.array(self.values, dtype=np.float64)

    def count_rows(self) -> None:
        """Replace each value by the number of its row, from 1."""
        self.values = array("d")
        self.values.frombytes((self.rows() + 1.0).tobytes())

    def ordinals(self) -> Ints:
        """Which of the log's values of this field each kept one is [n], from 0."""
        new = len(self.at) - len(self._ordinals)
        return np.concatenate([self._ordinals, np.arange(self.seen - new, self.seen)])

    def limits(self) -> tuple[float, float]:
        """Least and greatest finite value of all seen; (inf, -inf) where there is none."""
        finite = _finite(self.numbers())
        if not len(finite):
            return self.low, self.high
        return min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def finite_seen(self) -> int:
        """How many finite values the log has."""
        return len(_finite(self.numbers())) + self.removed - self.removed_nan

    def keep(self, kept: Flags, averaged: bool) -> None:
        """Leave only the marked values [n]. `averaged`: a kept one becomes the mean since the one before.

        So the sum over a field of single steps stays what it was.
        """
        values, ordinals = self.numbers(), self.ordinals()
        gone = values[~kept]
        finite = _finite(gone)
        if len(finite):
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        self.removed += len(gone)
        self.removed_nan += len(gone) - len(finite)
        rows = self.rows()[kept]
        if averaged:
            known = np.where(np.isfinite(values), values, 0.0) * np.diff(ordinals, prepend=-1)
            total, place = np.cumsum(known)[kept], ordinals[kept]
            values = np.diff(total, prepend=0.0) / np.diff(place, prepend=-1)
        else:
            values = values[kept]
        self.at, self.values = array("q"), array("d")
        self.extend(rows, values)
        self._ordinals = ordinals[kept]


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def look_up(rows: Ints, at: Ints, values: Floats) -> Floats:
    """Values of a field at given rows [m]: NaN where it has none; of several in a row the last."""
    if not len(at):
        return np.full(len(rows), np.nan)
    if np.array_equal(rows, at) and bool(np.all(rows[1:] > rows[:-1])):  # every row has both fields
        return values
    place = np.searchsorted(at, rows, side="right") - 1
    found = values[np.maximum(place, 0)]
    return np.where((place >= 0) & (at[np.maximum(place, 0)] == rows), found, np.nan)


def among(rows: Ints, chosen: Ints) -> Flags:
    """Which rows [n], in growing order, are among the chosen ones [m], in growing order too."""
    if not len(chosen):
        return np.zeros(len(rows), bool)
    place = np.minimum(np.searchsorted(chosen, rows), len(chosen) - 1)
    return chosen[place] == rows


def distinct(numbers: Ints) -> Ints:
    """The distinct values of whole numbers, in growing order. (np.unique hashes: far slower on millions.)"""
    if bool(np.all(numbers[1:] > numbers[:-1])):
        return numbers
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] > ordered[:-1])]
