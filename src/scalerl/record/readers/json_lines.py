"""One JSON object a line: verl's file logger, prime-rl, tinker-cookbook, SkyRL, ms-swift, home-made."""

from __future__ import annotations

import json
from typing import Any

import orjson

from scalerl.errors import UserError
from scalerl.record.column import Floats
from scalerl.record.columns import Log, Wanted, as_number, flatten
from scalerl.record.numbers import parse_number
from scalerl.record.readers.groups import Grouper, guess_groups
from scalerl.record.readers.shapes import Pairs, read_by_shape
from scalerl.record.text import Head, iter_blocks

_BAD_LINES_SHOWN = 3
_SAMPLED = 400


class JsonLines:
    """Collects the objects; lines that aren't one are counted by number."""

    def __init__(self, grouper: Grouper) -> None:
        self.grouper = grouper
        self.number = 0
        self.first_bad: list[int] = []
        self.last_bad = 0
        self.bad_in_all = 0

    def feed(self, line: str) -> None:
        """Take the next line."""
        self.number += 1
        if not line or line.isspace():
            return
        row = parse_object(line)
        if row is not None:
            add_row(self.grouper, row)
            return
        self.bad_in_all += 1
        self.last_bad = self.number
        if self.bad_in_all <= _BAD_LINES_SHOWN:
            self.first_bad.append(self.number)

    def feed_block(self, block: str) -> None:
        """Take the next lines."""
        for line in block.split("\n"):
            self.feed(line)

    def probe(self, line: str) -> Pairs | None:
        """What the line alone would store; None where a field that tells runs apart is a number."""
        row = parse_object(line)
        if row is None:
            return None
        flat = dict(flatten(row))
        keys = [flat.get(name) for name in self.grouper.by]
        columns = self.grouper.peek(flat)
        if columns is None or any(isinstance(key, int | float) for key in keys):
            return None
        told = {name: value for name, value in flat.items() if not _is_text(value) and columns.wants(name)}
        found = [(name, as_number(value, name)) for name, value in told.items()]
        return [(name, value) for name, value in found if value is not None]

    def take(self, example: str, names: list[str], values: list[Floats]) -> None:
        """Take rows of lines like the example."""
        count = len(values[0])
        self.number += count
        columns = self.grouper.columns_for(dict(flatten(parse_object(example) or {})), count)
        for name, numbers in zip(names, values, strict=True):
            columns.put_rows(name, numbers)
        columns.end_row(count)


def read_json_lines(head: Head, wanted: Wanted) -> Log:
    """Stream the lines; lines that aren't JSON objects are counted and left, the last one as torn."""
    log = Log("JSON lines")
    sample = [row for line in head.text.split("\n")[:_SAMPLED] if (row := parse_object(line)) is not None]
    grouper = Grouper(wanted, log, None if wanted.group else guess_groups(sample))
    reader = JsonLines(grouper)
    read_by_shape(iter_blocks(head.path, head.encoding), reader)
    if not grouper.rows:
        raise UserError(f"{head.path}: no line of it is a JSON object; nothing to read")
    _drop_bad(reader, log)
    log.format = _dialect(grouper)
    grouper.finish()
    return log


def _drop_bad(reader: JsonLines, log: Log) -> None:
    count = reader.bad_in_all
    if reader.last_bad == reader.number:
        log.drop("last line torn by a crash")
        count -= 1
    if count:
        shown = ", ".join(map(str, reader.first_bad[: min(count, _BAD_LINES_SHOWN)]))
        more = ", ..." if count > _BAD_LINES_SHOWN else ""
        log.drop(f"line that isn't a JSON object (line {shown}{more})", count)


def parse_object(text: str) -> dict[str, Any] | None:
    """A JSON object, NaN and Infinity allowed; None for anything else."""
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return row if isinstance(row, dict) else None


def add_row(grouper: Grouper, row: dict[str, Any]) -> None:
    """Store one object, nested ones flattened to 'a/b' names."""
    nested = any(type(value) is dict for value in row.values())
    pairs = list(flatten(row)) if nested else list(row.items())
    grouper.columns_for(dict(pairs) if grouper.by else {}).add(pairs)


def _is_text(value: Any) -> bool:
    """Whether a value is text that shows no number."""
    return isinstance(value, str) and parse_number(value) is None


def _dialect(grouper: Grouper) -> str:
    names = grouper.all_names()
    if "progress/batch" in names or "progress/done_frac" in names:
        return "tinker metrics.jsonl"
    if "critic/score/mean" in names:
        return "verl JSON lines"
    if "trainer/global_step" in names:
        return "SkyRL JSON lines"
    if "global_step/max_steps" in names:
        return "ms-swift logging.jsonl"
    return "JSON lines"
