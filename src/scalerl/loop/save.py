"""When a run's whole state is written: what every loop does alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scalerl.loop.checkpoint import write_checkpoint
from scalerl.loop.learner import Learner
from scalerl.loop.setup import model_folder, save_model


def save_if_due(learner: Learner, state: Callable[[], Mapping[str, Any]]) -> None:
    """Write a checkpoint at each `every_steps`-th step and at the end; `state` is asked only then."""
    plan = learner.config.checkpoint
    if learner.version % plan.every_steps and not learner.done:
        return
    write_checkpoint(
        learner.writer.path / "checkpoints",
        learner.version,
        state(),
        lambda folder: save_model(learner.trainer.policy, model_folder(learner.config), folder),
        keep_last=plan.keep_last,
        keep_every=plan.keep_every,
    )
