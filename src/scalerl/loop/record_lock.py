"""One writer a record: a second process that would write the same run is refused."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from scalerl.errors import UserError

LOCK_NAME = ".lock"


def lock_record(path: Path) -> IO[str]:
    """Take the record's lock until the returned file is closed, or the process ends, however it ends.

    Raises UserError when another process holds it, with its number.
    """
    path.mkdir(parents=True, exist_ok=True)
    file = (path / LOCK_NAME).open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise UserError(f"{path}: process {holder} is writing this run; wait for it, or stop it") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
