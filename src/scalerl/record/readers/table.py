"""Tables of text: CSV, TSV and the like, with any delimiter, decimal mark and column names."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from scalerl.errors import UserError
from scalerl.record.column import Ints
from scalerl.record.columns import Columns, Log, Wanted
from scalerl.record.fields import RATES, role_of
from scalerl.record.numbers import has_decimal_comma, parse_number
from scalerl.record.readers import wandb_chart
from scalerl.record.readers.cells import Cells, Dialect, Fields, read_cells, store, unlike
from scalerl.record.readers.groups import Grouper, guess_groups
from scalerl.record.text import Head

_SAMPLED = 400
_LONGEST_NAME = 200
_LONGEST_BESIDE_KNOWN = 10_000
_CONSOLE = re.compile(r"[{}\x1b]|step:\d")
_PREAMBLE = re.compile(r"#|\ufeff?sep=.?$")  # a comment; what Excel is told of the delimiter
_LONG_NAMES = ("metric", "metric_name", "tag", "key", "variable", "name")


def sniff_table(head: Head, named: tuple[str | None, ...] = ()) -> Dialect | None:
    """The table's dialect, from its first lines; None where the text isn't a table.

    A header without a known or `named` field must be obeyed by every line: console logs have commas too.
    """
    lines = re.split(r"\r\n|\r|\n", head.text)
    if not head.whole:
        lines = lines[:-1]
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or _PREAMBLE.match(lines[skipped])):
        skipped += 1
    body = [line for line in lines[skipped : skipped + _SAMPLED] if line.strip()]
    if not body:
        return None
    for delimiter in (",", "\t", ";", "|"):
        rows = _parse(body, delimiter)
        if rows is None or (len(rows[0]) < 2 and not _is_one_column(rows)):
            continue
        rows[0] += _unnamed_last(rows)
        width = len(rows[0])
        agreeing = sum(len(row) == width for row in rows)
        roles = {role_of(cell.strip()) for cell in rows[0]}
        telling = roles != {None} or any(cell.strip() in named for cell in rows[0])
        longest = _LONGEST_BESIDE_KNOWN if telling else _LONGEST_NAME
        fewest = 0.3 if "step" in roles and roles & set(RATES) else 0.9 if telling else 1.0
        if agreeing < fewest * len(rows) or not _is_header(rows[0], longest):
            continue
        if len(rows) == 1 and not head.whole:
            continue
        decimal = "," if any(has_decimal_comma(cell) for row in rows[1:] for cell in row) else "."
        return Dialect(delimiter, decimal, _unique(rows[0]), skipped)
    return None


def _is_one_column(rows: list[list[str]]) -> bool:
    """A name of a pass rate above numbers alone: `--x index` counts its rows."""
    cells = [row[0] for row in rows if len(row) == 1]
    numbers = all(parse_number(cell) is not None for cell in cells[1:])
    return 1 < len(cells) == len(rows) and numbers and role_of(cells[0].strip()) in RATES


def _unnamed_last(rows: list[list[str]]) -> list[str]:
    """A column more where every row below the header ends in a delimiter."""
    longer = len(rows[0]) + 1
    return [""] if len(rows) > 1 and all(len(row) == longer and not row[-1] for row in rows[1:]) else []


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


def _is_header(cells: list[str], longest: int) -> bool:
    """Names, not numbers, shorter than the longest allowed; one unnamed column (an index) is allowed."""
    named = [cell.strip() for cell in cells]
    if sum(not cell for cell in named) > 1 + len(named) // 10:
        return False
    return all(
        len(cell) < longest and not _CONSOLE.search(cell) and parse_number(cell) is None
        for cell in named
        if cell
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
    try:
        if wandb_chart.is_chart(dialect.header):
            batches = read_cells(head, dialect, log, wandb_chart.needed(dialect.header))
            wandb_chart.read_chart(batches, dialect.header, wanted, log)
        else:
            _read_rows(head, dialect, _scalar_export(dialect.header, wanted, log), log)
    except csv.Error as error:
        raise UserError(f"{head.path}: not readable as a table ({error})") from None
    _refuse_ragged(head, dialect, log)
    return log


def _refuse_ragged(head: Head, dialect: Dialect, log: Log) -> None:
    """A few rows of another width are left out; where they are many, the header isn't the table's."""
    reason = unlike(len(dialect.header))
    lost, kept = log.dropped.get(reason, 0), sum(columns.rows for columns in log.runs.values())
    if lost > kept / 2:
        raise UserError(
            f"{head.path}: {lost} of {lost + kept} rows have another number of cells than the header's "
            f"{len(dialect.header)}: mend its first line, or part the file where its columns change"
        )


def _scalar_export(header: tuple[str, ...], wanted: Wanted, log: Log) -> Wanted:
    """TensorBoard's CSV of one scalar names neither it nor the run: its Value is y."""
    low = {name.lower(): name for name in header}
    if low.keys() != {"wall time", "step", "value"} or wanted.y is not None:
        return wanted
    log.format, log.y_field = "TensorBoard scalar as CSV", low["value"]
    log.guesses.append(
        "the one value of this export is taken for the pass rate; the file doesn't say what it is"
    )
    return replace(wanted, y=log.y_field)


def _refuse_index(head: Head, header: tuple[str, ...]) -> None:
    low = {name.lower() for name in header}
    if {"sha256", "path"} <= low or {"path", "rows", "size_bytes"} <= low:
        raise UserError(
            f"{head.path}: an index of other files (columns path, sha256, ...), not a run; load those"
        )


def _read_rows(head: Head, dialect: Dialect, wanted: Wanted, log: Log) -> None:
    """A table of one row a step, or a tidy one of one value a row, of one run or of several."""
    header = dialect.header
    low = {name.lower(): name for name in header}
    metric = next((low[name] for name in _LONG_NAMES if name in low), None)
    tidy = Tidy(metric, low["value"]) if metric is not None and "value" in low else None
    named = [part.strip() for part in (wanted.group or "").split(",")]
    needed = [at for at, name in enumerate(header) if tidy or name in named or wanted.keep(name)]
    as_text = [at for at, name in enumerate(header) if _is_label(name, named, tidy)]
    batches = read_cells(head, dialect, log, needed or [0], as_text)
    first = next(batches, None)
    if first is None:
        return
    grouper = Grouper(wanted, log, None if wanted.group else _guess(first, header, tidy))
    for name in grouper.by:
        if name not in header:
            raise UserError(f"no column {name!r} to group by; the table has {', '.join(header[:30])}")
    for cells in itertools.chain([first], batches):
        fields = tidy.fields(cells, header, grouper.by) if tidy else _fields(cells, header, wanted)
        for columns, chosen in _by_run(cells, header, grouper):
            store(columns, fields, chosen)
            if tidy is None:
                for name in header:
                    columns.wants(name)
    if tidy is not None:
        log.format = "tidy table of metric and value"
    grouper.finish()


def _guess(cells: Cells, header: tuple[str, ...], tidy: Tidy | None) -> tuple[str, ...]:
    """Columns that tell runs apart, by the table's first rows."""
    labels = [at for at in cells.columns if _is_label(header[at], (), tidy)]
    names = [header[at] for at in labels]
    columns = [cells.texts(at)[:_SAMPLED] for at in labels]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return tuple(name for name in guess_groups(rows) if tidy is None or name != tidy.metric)


def _is_label(name: str, named: Collection[str], tidy: Tidy | None) -> bool:
    """Whether a column may be asked for its text: it tells runs or metrics apart."""
    return name in named or role_of(name) == "group" or (tidy is not None and name == tidy.metric)


def _fields(cells: Cells, header: tuple[str, ...], wanted: Wanted) -> Fields:
    return {
        name: cells.numbers(at, name, name == wanted.y or None)
        for at, name in enumerate(header)
        if wanted.keep(name)
    }


def _by_run(cells: Cells, header: tuple[str, ...], grouper: Grouper) -> Iterator[tuple[Columns, Ints]]:
    """Each run's columns and its rows among the cells, in order."""
    keys = list(zip(*(cells.texts(header.index(name)) for name in grouper.by), strict=True))
    distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    if len(distinct) < 2:
        row = dict(zip(grouper.by, keys[0], strict=True)) if keys else {}
        yield grouper.columns_for(row, len(cells)), np.arange(len(cells))
        return
    codes = np.array([distinct[key] for key in keys])
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    for key, end, count in zip(distinct, ends, np.bincount(codes), strict=True):
        row = dict(zip(grouper.by, key, strict=True))
        yield grouper.columns_for(row, int(count)), order[end - count : end]


@dataclass(frozen=True)
class Tidy:
    """A table of one value a row (run_name, metric, step, value): each metric is a field."""

    metric: str
    value: str

    def fields(self, cells: Cells, header: tuple[str, ...], by: tuple[str, ...]) -> Fields:
        """The fields of some rows: one for each metric among them, and the other columns."""
        found: Fields = {
            name: cells.numbers(at, name)
            for at, name in enumerate(header)
            if name not in (self.metric, self.value, *by)
        }
        names = np.array(cells.texts(header.index(self.metric)), dtype=object)
        rows, values = cells.numbers(header.index(self.value), self.value)
        for name in dict.fromkeys(names.tolist()):
            mine = names[rows] == name
            found[name] = rows[mine], values[mine]
        return found
