"""`scalerl.load`: any supported format, chosen by content, to a Run."""

from __future__ import annotations

from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.native import is_record, load_record
from scalerl.record.run import Run


def load(path: str | Path) -> Run:
    """Load a run record from its directory."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: no such file or directory")
    if path.is_dir() and is_record(path):
        return load_record(path)
    raise UserError(f"{path}: not a run record (no run.json)")
