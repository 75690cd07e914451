"""Running a config into a record: new or gone on with, under the loop that its clock asks for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalerl.errors import UserError
from scalerl.loop.checkpoint import latest_checkpoint
from scalerl.loop.config import RunConfig
from scalerl.loop.config_file import run_config_from
from scalerl.loop.learner import Learner, Listener
from scalerl.loop.local import LocalLoop
from scalerl.loop.record_lock import lock_record
from scalerl.loop.schedule import build_schedule
from scalerl.loop.setup import build_engine, build_learner, open_record, pinned, task_of
from scalerl.loop.simulated import SimulatedLoop, build_simulated_loop
from scalerl.loop.split import SplitLoop, build_split_loop
from scalerl.record.schema import parse_header
from scalerl.record.write import RunWriter


def train_run(config: RunConfig, path: Path, listener: Listener) -> None:
    """Run `config` into the record at `path`, going on from its last checkpoint when there is one.

    Raises UserError when `path` holds a run of another config or another process is writing it, RunStopped
    when the run can't go on.
    """
    with lock_record(path), pinned(config):
        task = task_of(config)
        writer, resumed = open_record(config, task, path)
        checkpoint = latest_checkpoint(path / "checkpoints") if resumed else None
        if resumed:
            _rewind(writer, checkpoint.step if checkpoint else -1, listener)
        learner = build_learner(config, task, writer, listener, checkpoint.path if checkpoint else None)
        loop = build_loop(config, learner)
        if checkpoint:
            loop.load_state_dict(checkpoint.state())
        with settled_heap():
            loop.run()


@contextmanager
def settled_heap() -> Iterator[None]:
    """Spare the garbage collector what is there already: half a million objects, most of them of libraries.

    It would walk through them all every few steps, a twentieth of a small run's time, and find nothing.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def build_loop(config: RunConfig, learner: Learner) -> LocalLoop | SimulatedLoop | SplitLoop:
    """Return the loop that the config's clock and processes ask for."""
    if config.clock and config.engine.processes > 1:
        raise UserError("engine.processes: 2 goes by the wall clock; drop it or `clock`")
    if config.engine.processes > 1:
        return build_split_loop(config, learner)
    if config.clock:
        return build_simulated_loop(config, config.clock, learner)
    engine = build_engine(config, learner.trainer.policy, learner.assembly.prompter)
    schedule = build_schedule(config.recipe.schedule, config.recipe.sizes.prompts_per_step)
    return LocalLoop(learner, engine, schedule)


def config_of_record(path: Path) -> RunConfig:
    """Return the config that a record of ours was made with; UserError when it isn't one of ours."""
    file = path / "run.json"
    if not file.is_file():
        raise UserError(f"{path}: no run.json here, so no run to go on with")
    header = parse_header(file.read_bytes(), file)
    config = header.extra.get("config")
    if config is None or header.recipe is None:
        raise UserError(f"{file}: not made by `scalerl train`: it can be fitted, not gone on with")
    return run_config_from({**config, "recipe": header.recipe}, str(file))


def _rewind(writer: RunWriter, step: int, listener: Listener) -> None:
    """Drop what was recorded after the checkpoint: the run repeats it, bit for bit."""
    dropped = writer.rewind(step)
    where = f"from its checkpoint at step {step}" if step >= 0 else "from the start (no checkpoint yet)"
    listener.on_event("resume", f"{writer.path}: going on {where}; {dropped} recorded lines are repeated")
