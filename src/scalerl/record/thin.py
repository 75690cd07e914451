"""Which rows of a log that is too long for memory stay: of every bin of rows the last value of each field.

The thinned curve is a part of the whole one: a value that a later one at the same step replaces is never
chosen, and both ends of the log and of each restart stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalerl.record.column import Column, Floats, Ints, among, distinct, look_up
from scalerl.record.fields import role_of, step_preference

if TYPE_CHECKING:
    from scalerl.record.columns import Columns, Wanted

_CARRIED = (None, "step", "range", "samples", "group")
_MOST_RESTARTS = 200
_ROWS_ASKED = 2000


def thinned_rows(columns: Columns, wanted: Wanted, bin_rows: int, end: int) -> Ints:
    """Rows before `end` that stay, in growing order: those that any field but steps and ranges needs."""
    needed = []
    for name in columns.stored():
        if role_of(name) in _CARRIED and name != wanted.y:
            continue
        column = columns.get(name)
        counter = step_field(columns, name, wanted.x)
        steps = None if counter is None else look_up(column.rows(), *columns.column(counter))
        needed.append(_needed(column, steps, bin_rows, end))
    return distinct(np.concatenate(needed)) if needed else np.arange(0)


def _needed(column: Column, steps: Floats | None, bin_rows: int, end: int) -> Ints:
    """Rows of a field before `end` that stay. `steps` [n] are those of its rows, where the log has any."""
    rows, values = column.rows(), column.numbers()
    good = np.isfinite(values) if steps is None else np.isfinite(values) & np.isfinite(steps)
    rows = rows[good]
    stays = np.zeros(len(rows), bool)
    lasting = rows < end
    if steps is not None and len(rows):
        steps = steps[good]
        last = np.append(steps[1:] != steps[:-1], True)  # of the values at one step, this one counts
        lasting &= last
        before = np.flatnonzero(steps[1:] < steps[:-1])
        if len(before) <= _MOST_RESTARTS:
            ends = np.flatnonzero(last)
            begun = np.searchsorted(ends, before + 1)
            stays[before] = stays[before + 1] = stays[ends[begun]] = True
    chosen = np.flatnonzero(lasting)
    if len(chosen):
        bins = rows[chosen] // bin_rows
        stays[chosen[np.append(bins[1:] != bins[:-1], True)]] = True
        stays[chosen[0]] = True
    return rows[stays & (rows < end)]


def step_field(columns: Columns, y: str, named: str | None) -> str | None:
    """The step counter: of those present beside y the trainer's own; None where there is none.

    How many of y's rows have it is asked of a sample of them.
    """
    if named is not None and role_of(named) == "step":
        return named
    rows = columns.get(y).rows()
    rows = rows[:: 1 + len(rows) // _ROWS_ASKED]
    best: tuple[float, int, str] | None = None
    for name in columns.having("step"):
        if name == y:
            continue
        covered = float(np.mean(among(rows, columns.get(name).rows()))) if len(rows) else 0.0
        if covered > 0:
            rank = (-round(covered, 2), step_preference(name), name)
            best = rank if best is None or rank < best else best
    return None if best is None else best[2]
