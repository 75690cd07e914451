"""One run of a log while it is put together: its y, the step of each row, restarts, what was left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scalerl.errors import UserError
from scalerl.record.choice import listing
from scalerl.record.choose import Chosen, choose_y
from scalerl.record.column import Floats, Ints, look_up
from scalerl.record.columns import Columns, Log
from scalerl.record.options import Options
from scalerl.record.restarts import resolve
from scalerl.record.thin import step_field

INDEX = "index"


class Assembly:
    """One run being put together."""

    def __init__(self, path: Path, run: str, columns: Columns, log: Log, options: Options) -> None:
        self.path, self.run, self.columns, self.log, self.options = path, run, columns, log, options
        self.where = f"{path}" + (f" [{run}]" if run else "")
        self.dropped = dict(log.dropped)
        self.guesses = list(log.guesses)
        self.warnings = list(log.warnings)
        self.chosen: Chosen = choose_y(columns, options.y or log.y_field, self.where)
        self.x = options.x or log.x_field
        if self.x == self.chosen.y:
            raise UserError(f"{self.where}: {self.x} can't be both compute and pass rate; name another --x")
        columns.settle()
        self.stepped = self._row_steps()

    def _row_steps(self) -> tuple[str, Ints, Floats]:
        """Where the steps are from, the rows [n] that have one, and it [n]."""
        y = self.columns.get(self.chosen.y)
        name = step_field(self.columns, self.chosen.y, self.options.x)
        if name is None and self.x is None and (counts := self._growing_compute()) is not None:
            self.x = counts
            self.guesses.append(f"no field for the step: rows are placed by {counts} and counted")
        if self.options.x == INDEX or (name is None and self.x is not None):
            return INDEX, y.rows(), (y.ordinals() + 1).astype(np.float64)
        if name is None:
            raise UserError(
                f"{self.where}: no field says at which step {self.chosen.y} was taken; name one with --x "
                f"(fields: {listing(list(self.columns.names), 10)}), or --x index to count the rows"
            )
        at, values = self.columns.column(name)
        if not len(at):
            raise UserError(f"{self.where}: field {name!r} holds no number; choose another with --x")
        return name, at, values

    def _growing_compute(self) -> str | None:
        """A field of compute spent so far that grows along all of y's rows."""
        rows = self.columns.get(self.chosen.y).rows()
        for role in ("device_hours", "flops", "tokens_total", "seconds_total"):
            for name in self.columns.having(role):
                spent = look_up(rows, *self.columns.column(name))
                if len(spent) > 1 and bool(np.all(np.diff(spent) > 0)):
                    return name
        return None

    def steps_of(self, name: str) -> tuple[Floats, Floats]:
        """(step, value) of a field in the order of the file, without NaN and rows that have no step."""
        at, values = self.columns.column(name)
        steps = look_up(at, *self.stepped[1:])
        good = np.isfinite(values) & np.isfinite(steps)
        return steps[good], values[good]

    def points(self, name: str, main: bool) -> tuple[Floats, Floats, Ints, Ints | None]:
        """(step, value, row, repeat) of a y field after restarts; `main` also notes what was left."""
        at, values = self.columns.column(name)
        steps = look_up(at, *self.stepped[1:])
        good = np.isfinite(values) & np.isfinite(steps)
        if main:
            self._note_thinning(name)
            lost = self.columns.get(name).removed_nan
            self._count("value is NaN, infinite or text", int(np.sum(~np.isfinite(values))) + lost)
            self._count("row without a step", int(np.sum(np.isfinite(values) & ~np.isfinite(steps))))
        if bool(np.any(steps[good] < 0)):
            self._leave_negative(name, float(steps[good].min()), main)
            good &= steps >= 0
        if not bool(good.all()):
            at, values, steps = at[good], values[good], steps[good]
        if not len(values) and main:
            raise UserError(f"{self.where}: {name} has no number at a known step; nothing to fit")
        if self.log.repeats:
            order = np.argsort(steps, kind="stable")
            steps = steps[order]
            first = np.searchsorted(steps, steps, side="left")
            if main and bool(np.any(steps[1:] == steps[:-1])):
                self.guesses.append("several evaluations at one step are repeats: the curve takes their mean")
            return steps, values[order], at[order], np.arange(len(steps)) - first
        done = resolve(steps, self.options.restart, self.where)
        if main:
            self.warnings += done.notes
            self._note_repeats(steps, values)
            for reason, count in done.dropped.items():
                self._count(reason, count)
        return done.step, values[done.kept], at[done.kept], None

    def _note_repeats(self, steps: Floats, values: Floats) -> None:
        """Two writers leave two values at most steps: one counts, which is no small loss."""
        again = (steps[1:] == steps[:-1]) & (values[1:] != values[:-1])
        if 3 * int(np.sum(again)) > len(steps):
            self.warnings.append(
                "most steps have several values, of which the last counts: two runs in one file? "
                "--group names the field that tells them apart"
            )

    def _leave_negative(self, name: str, step: float, main: bool) -> None:
        """A curve has no step below 0: y's are refused, those of other sets left out."""
        if main:
            raise UserError(
                f"{self.where}: field {self.stepped[0]!r} is {step:g} where {name} has a value; steps "
                "count from 0: mend or remove these rows, name another field with --x, or --x index "
                "to count the rows"
            )
        self.warnings.append(f"{name}: values at a step below 0 left out")

    def _note_thinning(self, name: str) -> None:
        """Say what was thinned out of the curve, and what was not stored at all."""
        column, bin_rows = self.columns.get(name), self.columns.bin_rows
        self._count(
            f"thinned: the last of every {bin_rows:,} rows stays", column.removed - column.removed_nan
        )
        if column.removed:
            self.warnings.append(
                f"{column.seen:,} values of {name} are more than are held: of every {bin_rows:,} rows the "
                "last one stays, both ends of the log and of each restart too; sums over steps stay whole"
            )
        if self.columns.crowded_out:
            some = ", ".join(sorted(self.columns.crowded_out - {""}))
            self.warnings.append(f"more fields than are held: some were left out ({some}, ...)")

    def _count(self, reason: str, count: int) -> None:
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count
