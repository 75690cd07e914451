"""Parquet tables, read in batches and only in the columns that can matter."""

from __future__ import annotations

from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted
from scalerl.record.fields import role_of
from scalerl.record.readers.groups import Grouper, guess_groups


def read_parquet(path: Path, wanted: Wanted) -> Log:
    """Stream a Parquet file; list and struct columns are left."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = Log("Parquet table")
    try:
        file = pq.ParquetFile(path)
        flat = [
            f.name
            for f in file.schema_arrow
            if not pa.types.is_nested(f.type) and not pa.types.is_binary(f.type)
        ]
        named = [wanted.x, wanted.y, *(part.strip() for part in (wanted.group or "").split(","))]
        chosen = [name for name in flat if name in named or role_of(name) is not None]
        grouper: Grouper | None = None
        for batch in file.iter_batches(batch_size=8192, columns=chosen):
            rows = [{k: _plain(v) for k, v in row.items()} for row in batch.to_pylist()]
            if grouper is None:
                grouper = Grouper(wanted, log, None if wanted.group else guess_groups(rows[:400]))
            for row in rows:
                columns = grouper.columns_for(row)
                columns.add((name, value) for name, value in row.items() if value is not None)
        for columns in log.runs.values():
            for name in flat:
                columns.wants(name)
        if grouper is not None:
            grouper.finish()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None
    if not log.runs:
        raise UserError(f"{path}: the table has no rows")
    return log


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | bool) or value is None else str(value)
