"""A text table in batches of columns: by Arrow where a block of it is plain, else by the csv module."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from scalerl.record.column import Floats, Ints
from scalerl.record.columns import Columns, Log, as_number
from scalerl.record.text import Head, ends_whole, iter_blocks

Fields = dict[str, tuple[Ints, Floats]]
"""Of each field the rows of a batch [n] that have it, and its values [n]."""
_LONGEST_CELL = 16 << 20
_ROWS_A_BATCH = 4096


@dataclass(frozen=True)
class Dialect:
    """How a table is written."""

    delimiter: str
    decimal: str
    header: tuple[str, ...]
    skipped: int


@dataclass(frozen=True)
class Cells:
    """Some rows of a table: for each column that is needed its text, as a list or as an Arrow array.

    An Arrow array of floats (null where a cell is empty) is a column of numbers as computers write them.
    """

    columns: dict[int, Any]
    decimal: str

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def texts(self, at: int) -> list[str]:
        """One column's cells as text."""
        column = self.columns[at]
        return column if isinstance(column, list) else column.to_pylist()

    def numbers(self, at: int, name: str, rate: bool | None = None) -> tuple[Ints, Floats]:
        """The rows [n] of a column that show a number, and the numbers [n]. `rate`: as for `as_number`."""
        if not isinstance(self.columns[at], list) and (found := self.plain_numbers(at)) is not None:
            return found
        read = [as_number(text, name, self.decimal, rate) for text in self.texts(at)]
        rows = [row for row, number in enumerate(read) if number is not None]
        return np.array(rows, np.int64), np.array([read[row] for row in rows], np.float64)

    def plain_numbers(self, at: int) -> tuple[Ints, Floats] | None:
        """The same by Arrow; None where a cell is neither empty nor a number as computers write it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.columns[at]
        if pa.types.is_floating(column.type):
            return _known(column)
        if self.decimal == ",":
            if pc.any(pc.match_substring(column, ".")).as_py():
                return None
            column = pc.replace_substring(column, ",", ".")
        filled = pc.not_equal(column, "").to_numpy(zero_copy_only=False)
        try:
            shown = column if bool(filled.all()) else column.filter(pa.array(filled))
            return np.flatnonzero(filled), pc.cast(shown, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            return None


def store(columns: Columns, fields: Fields, chosen: Ints) -> None:
    """Add rows [m], which are those at `chosen` [m] of a batch, with what fields they have."""
    whole = len(chosen) and chosen[-1] + 1 == len(chosen)
    for name, (rows, values) in fields.items():
        columns.wants(name)
        if whole and len(rows) and rows[-1] < len(chosen):
            columns.put_rows(name, values, rows)
            continue
        place = np.minimum(np.searchsorted(chosen, rows), len(chosen) - 1)
        here = chosen[place] == rows
        if bool(here.any()):
            columns.put_rows(name, values[here], place[here])
    columns.end_row(len(chosen))


def read_cells(
    head: Head, dialect: Dialect, log: Log, needed: list[int], as_text: Collection[int] = ()
) -> Iterator[Cells]:
    """The table's rows in batches, of the columns `needed`; those `as_text` are asked for by their text.

    Rows of another width than the header's, and a torn last one, are counted. A block is read by itself if
    its quotes are closed in it; from one on where they aren't, the csv module reads the rest. The last block
    is the csv module's too, for its last row may be torn.
    """
    torn = not ends_whole(head.path)
    blocks = _after_header(iter_blocks(head.path, head.encoding), dialect.skipped + 1)
    numeric = {at for at in needed if at not in as_text}
    block = next(blocks, None)
    while block is not None:
        following = next(blocks, None)
        if following is None or block.count('"') % 2:
            rest = chain([block], [] if following is None else [following], blocks)
            yield from _by_csv(rest, dialect, log, needed, torn)
            return
        cells = _by_arrow(block, dialect, log, needed, numeric)
        yield from _by_csv([block], dialect, log, needed, torn=False) if cells is None else [cells]
        block = following


def _after_header(blocks: Iterable[str], skip: int) -> Iterator[str]:
    for block in blocks:
        text = block
        if skip:
            lines = block.split("\n", skip)
            skip, text = skip - min(skip, len(lines)), lines[skip] if len(lines) > skip else ""
            if not text:
                continue
        yield text


def _known(column: Any) -> tuple[Ints, Floats]:
    """The rows of an Arrow array of floats that aren't null, and the floats."""
    if not column.null_count:
        return np.arange(len(column)), column.to_numpy()
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)), column.drop_null().to_numpy()


def _by_arrow(block: str, dialect: Dialect, log: Log, needed: list[int], numeric: set[int]) -> Cells | None:
    """A block's rows; None where Arrow can't tell them apart.

    Of the columns `numeric` one with a cell that is no plain number is taken out for good.
    """
    raw = block.encode("utf-8", "replace")
    found = _parsed(raw, dialect, needed, numeric) if numeric else None
    if found is None:
        before = len(numeric)
        found = _parsed(raw, dialect, needed, ())
        if found is None:
            return None
        texts = Cells(found[0], dialect.decimal)
        numeric -= {at for at in numeric if texts.plain_numbers(at) is None}
        if len(numeric) == before:  # plain numbers, but not to Arrow's tables
            numeric.clear()
    columns, other = found
    log.drop(unlike(len(dialect.header)), other)
    return Cells(columns, dialect.decimal)


def _parsed(
    raw: bytes, dialect: Dialect, needed: list[int], numeric: Collection[int]
) -> tuple[dict[int, Any], int] | None:
    """A block's columns, `numeric` ones as floats and others as text; how many rows have another width.

    None where Arrow can't tell the rows apart or a cell that should be a number is none.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = [str(at) for at in range(len(dialect.header))]
    types = {name: pa.float64() if int(name) in numeric else pa.string() for name in names}
    other: list[str] = []

    def skip(row: Any) -> str:
        if row.text.strip(dialect.delimiter):
            other.append("")
        return "skip"

    try:
        table = arrow.read_csv(
            io.BytesIO(raw),
            read_options=arrow.ReadOptions(use_threads=False, column_names=names, block_size=len(raw) + 1),
            parse_options=arrow.ParseOptions(delimiter=dialect.delimiter, invalid_row_handler=skip),
            convert_options=arrow.ConvertOptions(
                column_types=types,
                include_columns=[str(at) for at in needed],
                null_values=[""],
                strings_can_be_null=False,
                decimal_point=dialect.decimal,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return {at: table[str(at)].combine_chunks() for at in needed}, len(other)


def _by_csv(
    blocks: Iterable[str], dialect: Dialect, log: Log, needed: list[int], torn: bool
) -> Iterator[Cells]:
    """The rows of blocks that belong together, in batches."""
    width = len(dialect.header)
    lines = (line for block in blocks for line in block.split("\n"))
    limit = csv.field_size_limit(_LONGEST_CELL)
    batch: list[list[str]] = []
    try:
        reader = csv.reader(lines, delimiter=dialect.delimiter)
        line = 0
        for row in reader:
            line, begun = reader.line_num, line
            if len(row) != width:  # a quote that never closes swallows many lines
                log.drop(unlike(width), line - begun if any(row) else 0)
                continue
            if len(batch) == _ROWS_A_BATCH:
                yield _transposed(batch, dialect, needed)
                batch = []
            batch.append(row)
    finally:
        csv.field_size_limit(limit)
    if batch and torn and _looks_cut(batch[-1], batch[:-1]):
        log.drop("last row torn by a crash")
        batch.pop()
    if batch:
        yield _transposed(batch, dialect, needed)


def _transposed(rows: list[list[str]], dialect: Dialect, needed: list[int]) -> Cells:
    return Cells({at: [row[at] for row in rows] for at in needed}, dialect.decimal)


def unlike(width: int) -> str:
    """Why a row is left out that has more or fewer cells than the header."""
    return f"row with another number of cells than the header's {width}"


def _looks_cut(row: list[str], before: list[list[str]]) -> bool:
    """Whether the last cell of an unended row is half a number: '1.' or '3e', or shorter than all others."""
    last = row[-1].strip()
    shorter = len(before) > 2 and all(len(last) < len(other[-1].strip()) for other in before)
    return shorter or bool(re.search(r"(?:\d[.,]|[eE][+-]?|[+-])$", last))
