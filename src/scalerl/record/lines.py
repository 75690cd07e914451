"""Append-only JSON lines: whole lines, flushed; a torn last line is dropped with a warning."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from scalerl.errors import UserError

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def encode(data: Any) -> bytes:
    """JSON of plain data and NumPy numbers: floats round-trip exactly; NaN and infinities become null."""
    return orjson.dumps(data, option=_OPTIONS)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a whole file: temporary file, fsync, rename; a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def append_line(path: Path, data: Any) -> None:
    """Append one line in one write, flushed to the operating system before this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        line = encode(data) + b"\n"
        written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(f"{path}: the disk took {written} of {len(line)} bytes of a line")
    finally:
        os.close(descriptor)


def mend_tail(path: Path) -> bool:
    """Make a file end in a whole line before it is continued; say whether a torn one was cut off."""
    if not path.exists():
        return False
    content = path.read_bytes()
    if not content or content.endswith(b"\n"):
        return False
    head, _, tail = content.rpartition(b"\n")
    try:
        orjson.loads(tail)
    except orjson.JSONDecodeError:
        write_atomic(path, head + b"\n" if head else b"")
        return True
    write_atomic(path, content + b"\n")
    return False


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """All (line number, object) of a file that may still be written; a missing file is empty.

    A last line that doesn't parse is torn: dropped with a warning. Any other bad line is a UserError.
    """
    if not path.exists():
        return []
    raw = path.read_bytes().split(b"\n")
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(raw, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if number == len(raw) or not any(rest.strip() for rest in raw[number:]):
                warnings.warn(f"{path}:{number}: torn last line dropped", stacklevel=2)
                break
            raise UserError(f"{path}:{number}: not valid JSON ({error}); mend or remove this line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        rows.append((number, row))
    return rows


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> int:
    """Rewrite a file atomically with the lines that `keep` accepts; return how many were dropped."""
    rows = [row for _, row in read_lines(path)]
    kept = [row for row in rows if keep(row)]
    if len(kept) != len(rows):
        write_atomic(path, b"".join(encode(row) + b"\n" for row in kept))
    return len(rows) - len(kept)
