"""W&B chart exports: `<x>`, then for each run `<run> - <metric>` with `__MIN` and `__MAX` beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scalerl.record.column import distinct
from scalerl.record.columns import Columns, Log, Wanted
from scalerl.record.readers.cells import Cells, store

_EDGES = ("__MIN", "__MAX")


def is_chart(header: tuple[str, ...]) -> bool:
    """Whether the columns are those of a chart export: every `... - m` has `... - m__MIN` and `__MAX`."""
    names = set(header)
    mains = [name for name in header if " - " in name and not name.endswith(_EDGES)]
    return bool(mains) and all(name + edge in names for name in mains for edge in _EDGES)


def needed(header: tuple[str, ...]) -> list[int]:
    """The columns that are read: x and each run's values, without their edges."""
    return [at for at, name in enumerate(header) if not at or (" - " in name and not name.endswith(_EDGES))]


def read_chart(batches: Iterator[Cells], header: tuple[str, ...], wanted: Wanted, log: Log) -> None:
    """Split the table into its runs. A run's name may hold ' - ': the metric is what follows the last one."""
    log.format = "W&B chart export"
    log.x_field = header[0]
    places: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(header):
        if at and " - " in name and not name.endswith(_EDGES):
            run, _, metric = name.rpartition(" - ")
            places.setdefault(run, []).append((at, metric))
    reading = Wanted(wanted.x or header[0], wanted.y, wanted.group)
    runs = {run: Columns(reading, log.budget) for run in places}
    for cells in batches:
        x = cells.numbers(0, header[0])
        for run, found in places.items():
            fields = {metric: cells.numbers(at, metric) for at, metric in found}
            rows = distinct(np.concatenate([rows for rows, _ in fields.values()]))
            if len(rows):
                store(runs[run], {header[0]: x, **fields}, rows)
    log.runs = {"": next(iter(runs.values()))} if len(runs) == 1 else dict(runs)
