"""From columns to a Run: y scaled to pass rates, points placed on compute axes, all of it said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from scalerl.record.assembly import Assembly
from scalerl.record.axes import Axis
from scalerl.record.choose import evidence_for, fields_in_unit, run_title
from scalerl.record.column import distinct
from scalerl.record.columns import Columns, Log
from scalerl.record.fields import role_of
from scalerl.record.options import Options
from scalerl.record.place import axes_of, default_axis, grows, set_points
from scalerl.record.points import PointTable, SetPoints
from scalerl.record.run import Run
from scalerl.record.scale import to_rates
from scalerl.record.schema import HELD_OUT_LABEL, TRAIN_LABEL, UNSTATED_LABEL, Provenance, RunHeader

_MOST_SETS = 30


def assemble(path: Path, run: str, columns: Columns, log: Log, options: Options) -> Run:
    """Put one run of a log together. Errors name the file, the field and the remedy."""
    work = Assembly(path, run, columns, log, options)
    y = work.chosen.y
    steps, values, rows, repeat = work.points(y, main=True)
    rates, scale = to_rates(
        values,
        y,
        options.scale,
        evidence_for(columns, y),
        work.where,
        columns.get(y).limits() if columns.get(y).removed else None,
        fields_in_unit(columns, [name for name in work.chosen.others if name != y]),
    )
    axes, devices = axes_of(work)
    main = set_points(work, y, steps, rates, rows, repeat, axes)
    main, axis, source = default_axis(work, main, axes)
    others = _other_sets(work, axes) if scale == "unit" else []
    sets = [main, *others]
    provenance = Provenance(
        format=log.format,
        path=str(path),
        x=source,
        y=y,
        axis=axis,
        points=len(distinct(main.step)),
        dropped=work.dropped,
        guesses=tuple(dict.fromkeys([*work.chosen.guesses, *work.guesses])),
        warnings=tuple(dict.fromkeys([*work.chosen.warnings, *work.warnings])),
        scale=scale,
        other_y=tuple(work.chosen.others),
    )
    header = RunHeader(
        name=run_title(path, run),
        devices=devices,
        labels={points.name: label_of(points.name) for points in sets},
        source=provenance,
    )
    return Run(path=path, header=header, evaluations=PointTable(sets), warnings=provenance.warnings)


def label_of(name: str) -> str:
    """What a field's pass rate is, in words."""
    role = role_of(name)
    return {"held_out": HELD_OUT_LABEL, "train": TRAIN_LABEL}.get(role or "", UNSTATED_LABEL)


def _other_sets(work: Assembly, axes: list[Axis]) -> list[SetPoints]:
    """Further evaluation fields of the log whose values are rates as they are: each is a curve of its own."""
    names = [name for name in work.chosen.others if role_of(name) in ("held_out", "unstated")][:_MOST_SETS]
    found = []
    for name in fields_in_unit(work.columns, names):
        steps, values, rows, repeat = work.points(name, main=False)
        if not len(steps):
            work.warnings.append(f"{name}: no number at a known step, left out")
            continue
        points = set_points(work, name, steps, values, rows, repeat, axes)
        distinct_steps = None if repeat is None else points.step
        placed = {
            key: totals
            for key, totals in points.axes.items()
            if key != "custom" and bool(np.all(np.isfinite(totals))) and grows(totals, distinct_steps)
        }
        found.append(replace(points, axes=placed))
    return found
