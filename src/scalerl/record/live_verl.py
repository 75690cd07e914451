"""A verl tracking back end that writes a run record while verl trains.

In the trainer, after verl has made its `Tracking` logger:

    from scalerl.record.live_verl import add_record
    add_record(logger, "runs/a", devices="64+16:H100")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalerl.record.live import LiveRecord


class RecordBackend:
    """What verl's Tracking calls: `log(data, step)` for each step, `finish()` at the end."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.record = LiveRecord(path, **options)

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Record one step's metrics."""
        self.record.log(int(step), data)

    def finish(self) -> None:
        """Nothing is held back: every line is on disk already."""


def add_record(tracking: Any, path: str | Path, **options: Any) -> RecordBackend:
    """Add a record to a verl `Tracking`; options as for LiveRecord: y, scale, devices, params."""
    backend = RecordBackend(path, **options)
    tracking.logger["scalerl"] = backend
    return backend
