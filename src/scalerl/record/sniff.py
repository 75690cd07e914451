"""Which reader a file needs, by its content."""

from __future__ import annotations

import re
from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted
from scalerl.record.readers.console import read_console
from scalerl.record.readers.json_document import read_json_document
from scalerl.record.readers.json_lines import parse_object, read_json_lines
from scalerl.record.readers.parquet import read_parquet
from scalerl.record.readers.table import is_headless, read_table, sniff_table
from scalerl.record.readers.tensorboard_events import is_event_file, read_events
from scalerl.record.readers.wandb_run import MAGIC, read_wandb_file
from scalerl.record.text import Head, read_head

_OBJECT = re.compile(r"\{\s*[\"}]")
_ARRAY = re.compile(r"\[\s*(?:[{\"\]\[]|-?\d[\d.eE+-]*\s*[,\]]\s*(?:-?\d|$))")


def read_file(path: Path, wanted: Wanted) -> Log:
    """Read a log file of any supported format; UserError, one line, for anything else."""
    if not path.is_file():  # opening a pipe that nobody writes to would wait for ever
        raise UserError(f"{path}: a pipe or device; a log is read more than once: write it to a file first")
    try:
        with open(path, "rb") as file:
            start = file.read(64)
        if start.startswith(b"PAR1"):
            return read_parquet(path, wanted)
        if start.startswith(MAGIC):
            return read_wandb_file(path, wanted)
        if is_event_file(start):
            return read_events([path], wanted)
        return _read_text(read_head(path), wanted)
    except OSError as error:
        raise UserError(f"{path}: can't be read ({error.strerror or error})") from None


def _read_text(head: Head, wanted: Wanted) -> Log:
    text = head.text.lstrip("\ufeff \t\r\n")
    if _OBJECT.match(text):
        return read_json_lines(head, wanted) if _is_json_lines(text, head.whole) else _document(head, wanted)
    if _ARRAY.match(text):
        return _document(head, wanted)
    if (dialect := sniff_table(head, (wanted.x, wanted.y))) is not None:
        return read_table(head, dialect, wanted)
    if is_headless(head):
        raise UserError(
            f"{head.path}: a table without names of its columns; add a first line such as step,pass_rate"
        )
    return read_console(head, wanted)


def _document(head: Head, wanted: Wanted) -> Log:
    return read_json_document(head, wanted)


def _is_json_lines(text: str, whole: bool) -> bool:
    """Objects on lines of their own: the first is one, and it isn't all there is (or is a row of metrics)."""
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    if parse_object(lines[0]) is None:
        return len(lines) > 1 and parse_object(lines[1]) is not None and lines[1].lstrip().startswith("{")
    if len(lines) > 1 or not whole:
        return True
    row = parse_object(lines[0]) or {}
    return "_wandb" not in row and not any(isinstance(value, list | dict) for value in row.values())
