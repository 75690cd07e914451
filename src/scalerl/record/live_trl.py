"""A transformers TrainerCallback that writes a run record while TRL (or any transformers trainer) trains.

from scalerl.record.live_trl import record_callback
trainer = GRPOTrainer(..., callbacks=[record_callback("runs/a", devices="8:H100")])
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalerl.record.live import LiveRecord


def record_callback(path: str | Path, **options: Any) -> Any:
    """A callback for `Trainer(callbacks=[...])`; options as for LiveRecord: y, scale, devices, params, name.

    transformers is imported here, not before: the record room works without it.
    """
    from transformers import TrainerCallback

    class RecordCallback(TrainerCallback):
        """Hands the trainer's logs, training and evaluation, to a LiveRecord; on the first process only."""

        def __init__(self) -> None:
            self.record = LiveRecord(path, **options)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            """Called after every `trainer.log`, which carries evaluations too (`eval_...`)."""
            if logs and state.is_world_process_zero:
                self.record.log(int(state.global_step), logs)

    return RecordCallback()
