"""One JSON object a line: verl's file logger, prime-rl, tinker-cookbook, SkyRL, ms-swift, home-made."""

from __future__ import annotations

import json
from typing import Any

import orjson

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted, flatten
from scalerl.record.readers.groups import Grouper, guess_groups
from scalerl.record.text import Head, iter_lines

_BAD_LINES_SHOWN = 3
_SAMPLED = 400


def read_json_lines(head: Head, wanted: Wanted) -> Log:
    """Stream the lines; lines that aren't JSON objects are counted and left, the last one as torn."""
    log = Log("JSON lines")
    sample = [row for line in head.text.split("\n")[:_SAMPLED] if (row := parse_object(line)) is not None]
    grouper = Grouper(wanted, log, None if wanted.group else guess_groups(sample))
    bad: list[int] = []
    number = 0
    for number, line in enumerate(iter_lines(head.path, head.encoding), start=1):
        if not line or line.isspace():
            continue
        row = parse_object(line)
        if row is None:
            bad.append(number)
        else:
            add_row(grouper, row)
    if not grouper.rows:
        raise UserError(f"{head.path}: no line of it is a JSON object; nothing to read")
    if bad and bad[-1] == number:
        log.drop("last line torn by a crash")
        bad.pop()
    if bad:
        shown = ", ".join(str(at) for at in bad[:_BAD_LINES_SHOWN])
        log.drop(
            f"line that isn't a JSON object (line {shown}{', ...' if len(bad) > _BAD_LINES_SHOWN else ''})",
            len(bad),
        )
    log.format = _dialect(grouper)
    grouper.finish()
    return log


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
