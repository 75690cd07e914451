"""Tables of text: CSV, TSV and the like, with any delimiter, decimal mark and column names."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted
from scalerl.record.fields import role_of
from scalerl.record.numbers import has_decimal_comma, parse_number
from scalerl.record.readers import wandb_chart
from scalerl.record.readers.groups import Grouper, guess_groups
from scalerl.record.text import Head, ends_whole, iter_lines

_SAMPLED = 400
_CONSOLE = re.compile(r"[{}\x1b]|step:\d")
_LONGEST_CELL = 16 << 20
_LONG_NAMES = ("metric", "metric_name", "tag", "key", "variable", "name")


@dataclass(frozen=True)
class Dialect:
    """How a table is written."""

    delimiter: str
    decimal: str
    header: tuple[str, ...]
    skipped: int


def sniff_table(head: Head, named: tuple[str | None, ...] = ()) -> Dialect | None:
    """The table's dialect, from its first lines; None where the text isn't a table.

    A header without a known or `named` field must be obeyed by every line: console logs have commas too.
    """
    lines = re.split(r"\r\n|\r|\n", head.text)
    if not head.whole:
        lines = lines[:-1]
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].startswith("#")):
        skipped += 1
    body = [line for line in lines[skipped : skipped + _SAMPLED] if line.strip()]
    if not body:
        return None
    for delimiter in (",", "\t", ";", "|"):
        rows = _parse(body, delimiter)
        if rows is None or len(rows[0]) < 2:
            continue
        width = len(rows[0])
        agreeing = sum(len(row) == width for row in rows)
        telling = any(role_of(cell.strip()) is not None or cell.strip() in named for cell in rows[0])
        if agreeing < (0.9 if telling else 1.0) * len(rows) or not _is_header(rows[0]):
            continue
        if len(rows) == 1 and not head.whole:
            continue
        decimal = "," if any(has_decimal_comma(cell) for row in rows[1:] for cell in row) else "."
        return Dialect(delimiter, decimal, _unique(rows[0]), skipped)
    return None


def is_headless(head: Head) -> bool:
    """Whether the text is a table of numbers alone."""
    lines = [line for line in re.split(r"\r\n|\r|\n", head.text)[:20] if line.strip()]
    for delimiter in (",", "\t", ";", "|"):
        rows = _parse(lines, delimiter)
        if (
            rows
            and len(rows[0]) > 1
            and all(parse_number(cell) is not None for row in rows[:-1] or rows for cell in row)
        ):
            return True
    return False


def _parse(lines: list[str], delimiter: str) -> list[list[str]] | None:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return None


def _is_header(cells: list[str]) -> bool:
    """Names, not numbers, and short enough to be names; one unnamed column (an index) is allowed."""
    named = [cell.strip() for cell in cells]
    if sum(not cell for cell in named) > 1 + len(named) // 10:
        return False
    return all(
        len(cell) < 200 and not _CONSOLE.search(cell) and parse_number(cell) is None for cell in named if cell
    ) and bool(any(named))


def _unique(cells: list[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    names = []
    for position, cell in enumerate(cells):
        name = cell.strip().strip("\ufeff") or f"column {position + 1}"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def read_table(head: Head, dialect: Dialect, wanted: Wanted) -> Log:
    """Stream a table into columns; W&B chart exports are split into their runs."""
    log = Log("CSV table" if dialect.delimiter != "\t" else "TSV table")
    if dialect.decimal == ",":
        log.guesses.append("decimal commas")
    _refuse_index(head, dialect.header)
    rows = _rows(head, dialect, log)
    try:
        if wandb_chart.is_chart(dialect.header):
            wandb_chart.read_chart(rows, dialect.header, dialect.decimal, wanted, log)
        else:
            _plain(rows, dialect, wanted, log)
    except csv.Error as error:
        raise UserError(f"{head.path}: not readable as a table ({error})") from None
    return log


def _refuse_index(head: Head, header: tuple[str, ...]) -> None:
    low = {name.lower() for name in header}
    if {"sha256", "path"} <= low or {"path", "rows", "size_bytes"} <= low:
        raise UserError(
            f"{head.path}: an index of other files (columns path, sha256, ...), not a run; load those"
        )


def _rows(head: Head, dialect: Dialect, log: Log) -> Iterator[list[str]]:
    """Data rows of the right width. Short last rows of a torn file and rows of other widths are counted."""
    lines = itertools.islice(iter_lines(head.path, head.encoding), dialect.skipped, None)
    width = len(dialect.header)
    torn = not ends_whole(head.path)
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        reader = csv.reader(lines, delimiter=dialect.delimiter)
        next(reader, None)
        held: list[str] | None = None
        for row in reader:
            if held is not None:
                yield held
            held = None
            if len(row) == width:
                held = row
            elif row and any(row):
                log.drop(f"row with another number of cells than the header's {width}")
        if held is not None and torn and _looks_cut(held):
            log.drop("last row torn by a crash")
        elif held is not None:
            yield held
    finally:
        csv.field_size_limit(limit)


def _looks_cut(row: list[str]) -> bool:
    """Of a last row without an end, whether its last cell may be half a number ('1.' or '3e')."""
    return bool(re.search(r"(?:\d[.,]|[eE][+-]?|[+-])$", row[-1].strip()))


def _plain(rows: Iterator[list[str]], dialect: Dialect, wanted: Wanted, log: Log) -> None:
    header = dialect.header
    sample = list(itertools.islice(rows, _SAMPLED))
    as_dicts = [dict(zip(header, row, strict=True)) for row in sample]
    low = {name.lower(): name for name in header}
    metric = next((low[name] for name in _LONG_NAMES if name in low), None)
    if "value" in low and metric is not None:
        grouped = wanted.group or guess_groups(
            [{k: v for k, v in r.items() if k != metric} for r in as_dicts]
        )
        _long(
            itertools.chain(sample, rows), header, metric, low["value"], wanted, log, grouped, dialect.decimal
        )
        return
    grouper = Grouper(wanted, log, None if wanted.group else guess_groups(as_dicts))
    for name in grouper.by:
        if name not in header:
            raise UserError(f"no column {name!r} to group by; the table has {', '.join(header[:30])}")
    kept: dict[str, list[tuple[int, str]]] = {}
    groups = [(header.index(name), name) for name in grouper.by]
    for row in itertools.chain(sample, rows):
        columns = grouper.columns_for({name: row[at] for at, name in groups})
        if (places := kept.get(id_of(columns))) is None:
            places = kept[id_of(columns)] = [(at, n) for at, n in enumerate(header) if columns.wants(n)]
        columns.add(((name, row[at]) for at, name in places if row[at]), dialect.decimal)
    grouper.finish()


def id_of(columns: Columns) -> str:
    """A key for a run's columns that is stable while the log is read."""
    return str(id(columns))


def _long(
    rows: Iterator[list[str]],
    header: tuple[str, ...],
    metric: str,
    value: str,
    wanted: Wanted,
    log: Log,
    grouped: str | tuple[str, ...],
    decimal: str,
) -> None:
    """A tidy table, one value a row (run_name, metric, step, value): each metric becomes a field."""
    by = tuple(part.strip() for part in grouped.split(",")) if isinstance(grouped, str) else grouped
    grouper = Grouper(wanted, log, by)
    at_metric, at_value = header.index(metric), header.index(value)
    others = [(at, name) for at, name in enumerate(header) if name not in (metric, value, *by)]
    for row in rows:
        columns = grouper.columns_for({name: row[header.index(name)] for name in by})
        pairs = [(name, row[at]) for at, name in others]
        columns.add([*pairs, (row[at_metric], row[at_value])], decimal)
    log.format = "tidy table of metric and value"
    grouper.finish()
