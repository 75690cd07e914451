"""Lines that differ in their numbers alone, read together: what is between the numbers is learned from one.

A log of a gigabyte is mostly one line, printed again and again. Its dialect takes the first one apart; the
others are cut at the same texts and their numbers parsed by Arrow, all lines of a block at once. A line that
differs in anything but its numbers goes to the dialect, as every line would without this.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from scalerl.record.column import Flags, Floats, Ints
from scalerl.record.fields import role_of

Pairs = list[tuple[str, float]]
_NUMBER = re.compile(r"(?<![\w.@+-])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.@-])")
_NUMBER_CELL = r"^.[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?$"
_COUNTER = r"^.\d{1,12}$"
_NO_NUMBERS = (b"nan", b"inf")  # Arrow takes these for numbers, dialects may not
_CUT = "\x1f"
_LONGEST_LINE = 400
_MOST_NUMBERS = 16
_LEARNED_FROM = 12
_FEWEST_ALIKE = 0.4
_MOST_STRIKES = 3
FEWEST_LINES = 200  # of a block; fewer aren't worth loading Arrow for


class LineReader(Protocol):
    """A format of lines, as the dialects see it."""

    def feed(self, line: str) -> object:
        """Take the next line, of any kind."""

    def feed_block(self, block: str) -> None:
        """Take the next lines, of any kind."""

    def probe(self, line: str) -> Pairs | None:
        """What the line alone would store, in one row; None where it isn't a line of metrics."""

    def take(self, example: str, names: list[str], values: list[Floats]) -> None:
        """Take the next rows [n]: lines like the example, with the values [n] of each name."""


@dataclass(frozen=True)
class Shape:
    """A line's constant texts [m + 1] around its m numbers, and which of those is which field."""

    example: str
    texts: tuple[str, ...]
    fields: dict[str, int]

    @classmethod
    def of(cls, line: str, reader: LineReader) -> Shape | None:
        """The shape of a line, or None where its numbers can't be told apart as fields."""
        texts = tuple(_NUMBER.split(line))
        if len(line) > _LONGEST_LINE or not 1 < len(texts) <= 1 + _MOST_NUMBERS or "" in texts[1:-1]:
            return None
        found = [_fields(texts, reader, base) for base in (7_310_001, 8_420_001)]
        if found[0] is None or found[0] != found[1]:  # a number that is part of a name
            return None
        return cls(line, texts, found[0])

    def counters(self) -> list[int]:
        """Which numbers are steps: of these the dialects take whole ones only, without a fraction."""
        return [at for name, at in self.fields.items() if role_of(name) == "step"]

    def cut(self, block: str) -> str:
        """The block with each line cut into its numbers, each behind the mark of the text before it.

        The last line keeps its tail.
        """
        head, *between, tail = self.texts
        body = "a" + block.removeprefix(head) if block.startswith(head) else block
        body = body.replace(f"{tail}\n{head}", "\na")
        for text in sorted(set(between), key=len, reverse=True):
            body = body.replace(text, _CUT + self.mark(text))
        return body

    def mark(self, text: str) -> str:
        """The character that stands for a text between two numbers."""
        return chr(ord("b") + self.texts[1:-1].index(text))

    def marks(self) -> str:
        """The mark before each of the m numbers."""
        return "a" + "".join(map(self.mark, self.texts[1:-1]))


def _fields(texts: tuple[str, ...], reader: LineReader, base: int) -> dict[str, int] | None:
    """Which number is which field, seen by putting known numbers in; None where one is something else."""
    line = texts[0] + "".join(f"{base + at}{text}" for at, text in enumerate(texts[1:]))
    pairs = reader.probe(line)
    if not pairs or len({name for name, _ in pairs}) < len(pairs):
        return None
    fields = {name: int(value) - base for name, value in pairs if value == value // 1}
    good = len(fields) == len(pairs) and all(0 <= at < len(texts) - 1 for at in fields.values())
    return fields if good else None


def read_by_shape(blocks: Iterable[str], reader: LineReader) -> None:
    """Hand every line of the blocks to the reader, in order: alone, or with others of the same shape."""
    shape: Shape | None = None
    strikes = 0
    for block in blocks:
        lines = block.count("\n") + 1
        short = lines >= FEWEST_LINES and len(block) < _LONGEST_LINE * lines
        if shape is None and short and strikes < _MOST_STRIKES:
            shape = _learn(block.split("\n"), reader)
            strikes += shape is None
        parsed = parse_block(block, shape) if shape is not None else None
        if shape is not None and (parsed is None or len(parsed[0]) < _FEWEST_ALIKE * lines):
            shape, parsed, strikes = None, None, strikes + 1
        if shape is None or parsed is None:
            reader.feed_block(block)
        else:
            _feed(block.split("\n"), shape, *parsed, reader)


def _learn(lines: list[str], reader: LineReader) -> Shape | None:
    """The shape that most of a few lines from the middle of the block have."""
    middle = len(lines) // 2
    found: dict[tuple[str, ...], list[Shape]] = {}
    for line in lines[middle : middle + _LEARNED_FROM]:
        if (shape := Shape.of(line, reader)) is not None:
            found.setdefault(shape.texts, []).append(shape)
    return max(found.values(), key=len)[0] if found else None


def parse_block(block: str, shape: Shape) -> tuple[Ints, list[Floats]] | None:
    """Which lines have the shape [n], and their numbers, m arrays [n]; None where the block can't be cut."""
    if _CUT in block:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    marks = shape.marks()
    names = [str(at) for at in range(len(marks))]
    unlike: list[int] = []

    def skip(row: Any) -> str:
        unlike.append(row.number - 1)
        return "skip"

    body = f"{shape.cut(block)}\n".encode("utf-8", "replace")
    table = csv.read_csv(
        io.BytesIO(body),
        read_options=csv.ReadOptions(use_threads=False, column_names=names, block_size=len(body) + 1),
        parse_options=csv.ParseOptions(
            delimiter=_CUT, quote_char=False, ignore_empty_lines=False, invalid_row_handler=skip
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    alike = np.ones(block.count("\n") + 1, bool)
    alike[unlike] = False
    marked = [pc.starts_with(table[name], mark) for name, mark in zip(names, marks, strict=True)]
    marked += [pc.match_substring_regex(table[str(at)], _COUNTER) for at in shape.counters()]
    try:
        low = body.lower()
        if not any(word in low for word in _NO_NUMBERS):
            return _numbers(table, marked, alike)
    except pa.ArrowInvalid:  # a cell that is no number
        pass
    tested = [pc.match_substring_regex(table[name], _NUMBER_CELL) for name in names]
    return _numbers(table, [*marked, *tested], alike)


def _numbers(table: Any, tests: list[Any], alike: Flags) -> tuple[Ints, list[Floats]]:
    """The rows of a table of marked cells that pass all tests, among the lines `alike`, as numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    good = np.logical_and.reduce([test.to_numpy() for test in tests])
    if not bool(good.all()):
        table = table.filter(pa.array(good))
    cells = (pc.utf8_slice_codeunits(column, 1) for column in table.columns)
    return np.flatnonzero(alike)[good], [pc.cast(cell, pa.float64()).to_numpy() for cell in cells]


def _feed(lines: list[str], shape: Shape, alike: Ints, numbers: list[Floats], reader: LineReader) -> None:
    """Lines of the shape in rows, the others one by one; so is a line before another one, which may go on."""
    alone = np.ones(len(lines) + 1, bool)
    alone[alike] = False
    alone[:-1] |= alone[1:]  # also makes the block's last line alone
    names = list(shape.fields)
    place = np.cumsum(np.isin(np.arange(len(lines)), alike)) - 1
    done = 0
    for at in np.flatnonzero(alone[:-1]).tolist():
        if at > done:
            rows = slice(place[done], place[at - 1] + 1)
            reader.take(shape.example, names, [numbers[shape.fields[name]][rows] for name in names])
        reader.feed(lines[at])
        done = at + 1
