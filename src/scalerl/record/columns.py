"""The rows of a foreign log as sparse numeric columns, only of fields that can matter, within a budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scalerl.record.column import Column, Flags, Floats, Ints, among
from scalerl.record.fields import RATES, role_of
from scalerl.record.numbers import parse_duration, parse_number, shows_nothing
from scalerl.record.thin import thinned_rows

MOST_VALUES = 4_000_000
"""Values of all fields and runs of a log that are held (16 bytes each) before rows are thinned out."""
_MOST_FIELDS = 5000
_ROWS_A_CHECK = 256
_AVERAGED = ("tokens_step", "seconds_step")


@dataclass(frozen=True)
class Wanted:
    """Fields that the user named. Everything else is kept or left by its name's role."""

    x: str | None = None
    y: str | None = None
    group: str | None = None

    def keep(self, name: str) -> bool:
        """Whether a field's values are to be stored."""
        return name in (self.x, self.y) or role_of(name) is not None


class Budget:
    """How many values the runs of one log may hold together; the fullest one is thinned first."""

    def __init__(self, most: int | None = None) -> None:
        self.most = MOST_VALUES if most is None else most
        self.held = 0
        self.members: list[Columns] = []

    def thin(self) -> None:
        """Thin runs until a quarter of the budget is free again, or until nothing more can go."""
        while self.held > 0.75 * self.most:
            fullest = max(self.members, key=lambda member: member.held)
            before = self.held
            fullest.thin()
            if self.held >= before:
                return


class Columns:
    """One run's rows: a column holds (row number, value) for the rows that have the field, NaN included.

    When the log's budget is used up, of every `bin_rows` rows only the last value of each field stays, with
    the whole of its row.
    """

    def __init__(self, wanted: Wanted, budget: Budget | None = None) -> None:
        self.rows = 0
        self.names: dict[str, None] = {}
        self.bin_rows = 1
        self.held = 0
        self.crowded_out: set[str] = set()
        self._keep: dict[str, bool] = {}
        self._wanted = wanted
        self._columns: dict[str, Column] = {}
        self._budget = budget or Budget()
        self._budget.members.append(self)
        self._checked = 0

    def wants(self, name: str) -> bool:
        """Whether a field is stored; the first ask notes its name for messages."""
        known = self._keep.get(name)
        if known is None:
            known = self._wanted.keep(name)
            if len(self._keep) < _MOST_FIELDS:
                self._keep[name] = known
                self.names[name] = None
        return known

    def put(self, name: str, value: float) -> None:
        """Store a value of the current row."""
        column = self._columns.get(name)
        if column is None:
            column = self._new(name)
        column.at.append(self.rows)
        column.values.append(value)

    def put_rows(self, name: str, values: Floats, places: Ints | None = None) -> None:
        """Store values [n] of the next n rows, or of those at `places` [n] among the rows to come."""
        column = self._columns[name] if name in self._columns else self._new(name)
        column.extend(self.rows + (np.arange(len(values)) if places is None else places), values)

    def _new(self, name: str) -> Column:
        if len(self._columns) >= _MOST_FIELDS:
            self.crowded_out.add(name[:80] if len(self.crowded_out) < 3 else "")
            return Column()
        column = self._columns[name] = Column()
        return column

    def end_row(self, count: int = 1) -> None:
        """Close the current row, or `count` rows."""
        self.rows += count
        if self.rows - self._checked >= _ROWS_A_CHECK:
            self._check()

    def _check(self) -> None:
        self._checked = self.rows
        self._count()
        if self._budget.held > self._budget.most:
            self._budget.thin()

    def _count(self) -> None:
        held = sum(map(len, self._columns.values()))
        self._budget.held += held - self.held
        self.held = held

    def thin(self) -> None:
        """Thin the rows since the last time; widen the bins if that leaves more than half of what is held."""
        before = self.held
        self._thin_to(self.rows - self.rows % self.bin_rows)
        while self.held > 0.5 * before and self.bin_rows < self.rows:
            self.bin_rows *= 2
            self._thin_to(self.rows - self.rows % self.bin_rows)

    def settle(self) -> None:
        """The log has ended: thin the rows since the last time too, so that all are kept as densely."""
        self._thin_to(self.rows)

    def _thin_to(self, end: int) -> None:
        if self.bin_rows == 1:
            return
        kept = thinned_rows(self, self._wanted, self.bin_rows, end)
        rows, stays = np.zeros(0, np.int64), np.zeros(0, bool)
        for name, column in self._columns.items():
            mine = column.rows()
            if not np.array_equal(mine, rows):  # mostly the fields of a log are of the same rows
                rows, stays = mine, _staying(mine, kept, end)
            column.keep(stays, averaged=role_of(name) in _AVERAGED)
        self._count()

    def add(self, row: Iterable[tuple[str, Any]], decimal: str = ".") -> None:
        """Store one whole row of raw values: numbers, booleans, or text that shows a number."""
        for name, value in row:
            if not self.wants(name):
                continue
            if (number := as_number(value, name, decimal, name == self._wanted.y or None)) is not None:
                self.put(name, number)
        self.end_row()

    def number(self, name: str, value: Any) -> float | None:
        """The number behind a raw value of a field; None where it shows none."""
        return as_number(value, name, rate=name == self._wanted.y or None)

    def rename(self, old: str, new: str) -> None:
        """Give a stored field another name; one that has it already is replaced."""
        if (column := self._columns.pop(old, None)) is not None:
            self.wants(new)
            self._columns[new] = column

    def remove(self, name: str) -> None:
        """Forget a field's values."""
        self._columns.pop(name, None)

    def column(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Row numbers [n] and values [n] of a field; empty where it never had a number."""
        column = self.get(name)
        return column.rows(), column.numbers()

    def get(self, name: str) -> Column:
        """The column itself; an empty one where the field never had a number."""
        return self._columns[name] if name in self._columns else Column()

    def count(self, name: str) -> int:
        """How many rows of the log have a number (NaN counts) in this field."""
        return self.get(name).seen

    def having(self, role: str) -> list[str]:
        """Stored fields of a role, in order of appearance."""
        return [name for name in self._columns if role_of(name) == role]

    def stored(self) -> list[str]:
        """All stored fields, in order of appearance."""
        return list(self._columns)


def _staying(rows: Ints, kept: Ints, end: int) -> Flags:
    old = int(np.searchsorted(rows, end))
    return np.append(among(rows[:old], kept), np.ones(len(rows) - old, bool))


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
    y_field: str | None = None
    budget: Budget = field(default_factory=Budget)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count something left out."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def run(self, name: str, wanted: Wanted) -> Columns:
        """The columns of a run, within the log's budget."""
        if (columns := self.runs.get(name)) is None:
            columns = self.runs[name] = Columns(wanted, self.budget)
        return columns

    def one(self, wanted: Wanted) -> Columns:
        """The columns of a log of one run."""
        return self.run("", wanted)


def as_number(value: Any, name: str, decimal: str = ".", rate: bool | None = None) -> float | None:
    """The number behind a raw value, or None: durations in time fields, '10/560' in step fields.

    Text in a field of rates ('OOM') is NaN, so that it is counted among what is dropped. `rate` says whether
    the field is one, else its name does.
    """
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
    number = parse_number(value, decimal)
    if number is None and (role in RATES if rate is None else rate) and not shows_nothing(value):
        return math.nan
    return number


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
