"""Rows of a data set: from local files, or from the hub where it can be reached."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scalerl.errors import UserError

Row = Mapping[str, Any]
_SUFFIXES = (".jsonl", ".json", ".parquet")


def read_rows(path: str | Path) -> Iterator[Row]:
    """Rows of a .jsonl, .json (a list) or .parquet file, or of every such file of a folder, in order of
    their names.

    Raises UserError naming the file and the line.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise UserError(f"{path}: no .jsonl, .json or .parquet file in this folder")
    elif path.is_file():
        files = [path]
    else:
        raise UserError(f"{path}: no such file or folder")
    for file in files:
        yield from _read_file(file)


def _read_file(file: Path) -> Iterator[Row]:
    if file.suffix == ".parquet":
        yield from _read_parquet(file)
    elif file.suffix == ".jsonl":
        yield from _read_lines(file)
    elif file.suffix == ".json":
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: not JSON: {error}") from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"{file}: must hold a list of objects")
        yield from rows
    else:
        raise UserError(f"{file}: unknown kind of file; give .jsonl, .json or .parquet")


def _read_lines(file: Path) -> Iterator[Row]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UserError(f"{file}:{number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise UserError(f"{file}:{number}: a line must be an object, not {type(row).__name__}")
            yield row


def _read_parquet(file: Path) -> Iterator[Row]:
    import pyarrow.parquet
    from pyarrow import ArrowException

    try:
        table = pyarrow.parquet.ParquetFile(file)
        for batch in table.iter_batches(batch_size=256):  # rows of code sets can hold megabytes of tests
            yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise UserError(f"{file}: can't read the parquet file: {str(error).splitlines()[0]}") from None


def hub_rows(hub_id: str, subset: str | None, split: str) -> Iterable[Row]:
    """Rows of a hub data set through the package `datasets`; raises UserError where that isn't to be had."""
    instead = f"give its files by path (task field 'path', or NAME:FILE), or make {hub_id} reachable"
    if importlib.util.find_spec("datasets") is None:
        raise UserError(
            f"{hub_id}: loading from the hub needs the package datasets "
            f"(pip install 'scalerl[data]'); or {instead}"
        )
    import datasets

    try:
        rows: Iterable[Row] = datasets.load_dataset(hub_id, subset, split=split)
    except Exception as error:  # network, authentication, missing configuration: one line for each
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{hub_id}: can't be loaded from the hub ({reason[:200]}); {instead}") from None
    return rows
