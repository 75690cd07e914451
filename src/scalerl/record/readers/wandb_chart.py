"""W&B chart exports: `<x>`, then for each run `<run> - <metric>` with `__MIN` and `__MAX` beside it."""

from __future__ import annotations

from collections.abc import Iterator

from scalerl.record.columns import Columns, Log, Wanted

_EDGES = ("__MIN", "__MAX")


def is_chart(header: tuple[str, ...]) -> bool:
    """Whether the columns are those of a chart export: every `... - m` has `... - m__MIN` and `__MAX`."""
    names = set(header)
    mains = [name for name in header if " - " in name and not name.endswith(_EDGES)]
    return bool(mains) and all(name + edge in names for name in mains for edge in _EDGES)


def read_chart(
    rows: Iterator[list[str]], header: tuple[str, ...], decimal: str, wanted: Wanted, log: Log
) -> None:
    """Split the table into its runs. A run's name may hold ' - ': the metric is what follows the last one."""
    log.format = "W&B chart export"
    log.x_field = header[0]
    places: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(header):
        if at and " - " in name and not name.endswith(_EDGES):
            run, _, metric = name.rpartition(" - ")
            places.setdefault(run, []).append((at, metric))
    reading = Wanted(wanted.x or header[0], wanted.y, wanted.group)
    runs = {run: Columns(reading) for run in places}
    for row in rows:
        for run, cells in places.items():
            pairs = [(metric, row[at]) for at, metric in cells if row[at]]
            if pairs:
                runs[run].add([(header[0], row[0]), *pairs], decimal)
    log.runs = {"": next(iter(runs.values()))} if len(runs) == 1 else dict(runs)
