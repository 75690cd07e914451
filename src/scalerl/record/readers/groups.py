"""Several runs in one table: rows told apart by fields like run_name, method and seed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted, flatten
from scalerl.record.fields import canonical, role_of

_MOST_RUNS = 2000
_SAMPLED = 400
_FEWEST_ALIKE = 8
_MAY_BE_NUMBERS = ("seed", "run", "run_id", "trial")


class Grouper:
    """Hands each row the columns of its run. Fields to group by are set before the first row is stored."""

    def __init__(self, wanted: Wanted, log: Log, by: tuple[str, ...] | None = None) -> None:
        self.wanted = wanted
        self.log = log
        named = tuple(part.strip() for part in wanted.group.split(",")) if wanted.group else None
        self.by: tuple[str, ...] = by if by is not None else named or ()
        self.rows = 0

    def columns_for(self, row: Mapping[str, Any], count: int = 1) -> Columns:
        """The columns that a row belongs in, or that `count` rows like it do."""
        self.rows += count
        key = run_name(row, self.by)
        if key not in self.log.runs and len(self.log.runs) >= _MOST_RUNS:
            by = ", ".join(self.by)
            raise UserError(f"{by} tells more than {_MOST_RUNS} runs apart; name another field with --group")
        return self.log.run(key, self.wanted)

    def peek(self, row: Mapping[str, Any]) -> Columns | None:
        """The columns that a row would belong in, where the run is known already."""
        return self.log.runs.get(run_name(row, self.by))

    def finish(self) -> None:
        """End of the log: a single run needs no name; several are said to have been told apart."""
        runs = self.log.runs
        if len(runs) == 1:
            self.log.runs = {"": next(iter(runs.values()))}
        elif self.by and not self.wanted.group:
            self.log.guesses.append(f"{len(runs)} runs told apart by {', '.join(self.by)}")

    def all_names(self) -> set[str]:
        """Every field seen in any run."""
        return {name for columns in self.log.runs.values() for name in columns.names}


def add_rows(grouper: Grouper, rows: Sequence[dict[str, Any]]) -> None:
    """Store JSON objects, nested ones flattened to 'a/b' names; the first ones tell what to group by."""
    flat = [row if dict not in map(type, row.values()) else dict(flatten(row)) for row in rows]
    if not grouper.rows and not grouper.wanted.group:
        grouper.by = guess_groups(flat[:_SAMPLED])
    for names, members in itertools.groupby(flat, key=tuple):
        alike = list(members)
        if grouper.by or len(alike) < _FEWEST_ALIKE:
            for row in alike:
                grouper.columns_for(row).add(row.items())
        else:
            _add_alike(grouper.columns_for({}, len(alike)), names, alike)


def _add_alike(columns: Columns, names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Store rows of the same fields, field by field."""
    for name, cells in zip(names, zip(*map(dict.values, rows), strict=True), strict=True):
        if not columns.wants(name):
            continue
        if set(map(type, cells)) == {float}:
            columns.put_rows(name, np.array(cells))
            continue
        numbers = [columns.number(name, cell) for cell in cells]
        places = [at for at, number in enumerate(numbers) if number is not None]
        if places:
            columns.put_rows(name, np.array([numbers[at] for at in places], np.float64), np.array(places))
    columns.end_row(len(rows))


def run_name(row: Mapping[str, Any], by: tuple[str, ...]) -> str:
    """'ppo' for one field; 'ppo seed=3' for several: text as it is, numbers with their field's name."""
    if not by:
        return ""
    parts = []
    for name in by:
        value = str(row.get(name, "")).strip()
        if len(by) > 1 and _is_number(value):
            value = f"{name}={value}"
        parts.append(value or f"{name}=(none)")
    return " ".join(parts)


def guess_groups(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Fields that tell runs apart, from a sample of rows: known names that hold text; seeds and run ids.

    A field whose values hardly ever come back (an id of the row) doesn't.
    """
    found = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if role_of(name) != "group":
            continue
        values = [str(row[name]) for row in rows if row.get(name) not in (None, "")]
        distinct = set(values)
        named = canonical(name) in _MAY_BE_NUMBERS or any(not _is_number(value) for value in distinct)
        if named and values and 2 * len(distinct) <= max(len(values), 2):
            found.append(name)
    return tuple(found)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
