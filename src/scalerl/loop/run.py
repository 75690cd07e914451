"""Running a config: under the loop that its clock asks for."""

from __future__ import annotations

from pathlib import Path

from scalerl.errors import UserError
from scalerl.loop.config import RunConfig
from scalerl.loop.config_file import run_config_from
from scalerl.loop.learner import Listener
from scalerl.record.schema import parse_header


def train_run(config: RunConfig, path: Path, listener: Listener) -> None:
    """Run `config` into the record at `path`, going on from its last checkpoint when there is one.

    Raises UserError when `path` holds a run of another config, RunStopped when the run can't go on.
    """
    from scalerl.loop.local import train

    train(config, path, listener)


def config_of_record(path: Path) -> RunConfig:
    """Return the config that a record of ours was made with; UserError when it isn't one of ours."""
    file = path / "run.json"
    if not file.is_file():
        raise UserError(f"{path}: no run.json here, so no run to go on with")
    header = parse_header(file.read_bytes(), file)
    config = header.extra.get("config")
    if config is None or header.recipe is None:
        raise UserError(
            f"{file}: this record wasn't made by `scalerl train`: it can be fitted, not gone on with"
        )
    return run_config_from({**config, "recipe": header.recipe}, str(file))
