"""The rows of a foreign log as sparse numeric columns, only of fields that can matter."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scalerl.record.fields import role_of
from scalerl.record.numbers import parse_duration, parse_number

_NAMES_REMEMBERED = 5000


@dataclass(frozen=True)
class Wanted:
    """Fields that the user named. Everything else is kept or left by its name's role."""

    x: str | None = None
    y: str | None = None
    group: str | None = None

    def keep(self, name: str) -> bool:
        """Whether a field's values are to be stored."""
        return name in (self.x, self.y) or role_of(name) is not None


class Columns:
    """One run's rows: a column holds (row number, value) for the rows that have the field, NaN included."""

    def __init__(self, wanted: Wanted) -> None:
        self.rows = 0
        self.names: dict[str, None] = {}
        self._keep: dict[str, bool] = {}
        self._wanted = wanted
        self._at: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}

    def wants(self, name: str) -> bool:
        """Whether a field is stored; the first ask notes its name for messages."""
        known = self._keep.get(name)
        if known is None:
            known = self._wanted.keep(name)
            if len(self._keep) < _NAMES_REMEMBERED:
                self._keep[name] = known
                self.names[name] = None
        return known

    def put(self, name: str, value: float) -> None:
        """Store a value of the current row."""
        at = self._at.get(name)
        if at is None:
            at = self._at[name] = array("i")
            self._values[name] = array("d")
        at.append(self.rows)
        self._values[name].append(value)

    def end_row(self) -> None:
        """Close the current row."""
        self.rows += 1

    def add(self, row: Iterable[tuple[str, Any]], decimal: str = ".") -> None:
        """Store one whole row of raw values: numbers, booleans, or text that shows a number."""
        for name, value in row:
            if self.wants(name) and (number := as_number(value, name, decimal)) is not None:
                self.put(name, number)
        self.rows += 1

    def set_steps(self, steps: Sequence[int]) -> None:
        """Give every row its step, where the log itself has none."""
        self.wants("step")
        self._at["step"] = array("i", range(self.rows))
        self._values["step"] = array("d", steps)

    def column(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Row numbers [n] and values [n] of a field; empty where it never had a number."""
        if name not in self._at:
            return np.zeros(0, np.int64), np.zeros(0)
        return (
            np.frombuffer(self._at[name], dtype=np.int32).astype(np.int64),
            np.frombuffer(self._values[name], dtype=np.float64).copy(),
        )

    def count(self, name: str) -> int:
        """How many rows have a number (NaN counts) in this field."""
        return len(self._at.get(name, ()))

    def having(self, role: str) -> list[str]:
        """Stored fields of a role, in order of appearance."""
        return [name for name in self._at if role_of(name) == role]

    def stored(self) -> list[str]:
        """All stored fields, in order of appearance."""
        return list(self._at)


@dataclass
class Log:
    """What a reader found: columns by run name ('' where the log is of one run), and what it noticed."""

    format: str
    runs: dict[str, Columns] = field(default_factory=dict)
    guesses: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    repeats: bool = False
    x_field: str | None = None

    def drop(self, reason: str, count: int = 1) -> None:
        """Count something left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def one(self, wanted: Wanted) -> Columns:
        """The columns of a log of one run."""
        return self.runs.setdefault("", Columns(wanted))


def as_number(value: Any, name: str, decimal: str = ".") -> float | None:
    """The number behind a raw value, or None: durations in time fields, '10/560' in step fields."""
    kind = type(value)
    if kind is float:
        return value
    if kind is int:
        return float(value) if value.bit_length() < 1000 else None
    if kind is bool:
        return float(value)
    if kind is not str:
        return None
    role = role_of(name)
    if role in ("seconds_total", "seconds_step", "seconds_either"):
        return parse_duration(value)
    if role == "step" and "/" in value:
        value = value.split("/", 1)[0]
    return parse_number(value, decimal)


def flatten(row: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Leaves of a nested JSON object as ('a/b', value); verl's {'step', 'data': {...}} loses its 'data/'."""
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth < 6:
                inner = "" if not prefix and key in ("data", "metrics", "logs") else f"{name}/"
                yield from flatten(value, inner, depth + 1)
        else:
            yield name, value
