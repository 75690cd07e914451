"""Generator and trainer as two processes: the bound holds, every group once, a killed run goes on."""

from __future__ import annotations

import os
import signal
from unittest.mock import patch

import pytest
from small_run import Silent, config, small_task, write_model

from scalerl.errors import UserError
from scalerl.loop.checkpoint import latest_checkpoint
from scalerl.loop.learner import RunStopped
from scalerl.loop.run import train_run
from scalerl.loop.split import SplitLoop
from scalerl.loop.trainer import Trainer
from scalerl.recipe import axes
from scalerl.record.lines import read_lines


def _settings(model, steps, **changes):
    plain = config(model, steps=steps, clock=None, **changes)
    return plain.model_copy(update={"engine": plain.engine.model_copy(update={"processes": 2})})


def _rows(path):
    return [row for _, row in read_lines(path / "steps.jsonl")]


def test_two_processes_keep_the_bound_and_go_on_after_the_generator_dies(tmp_path):
    model = write_model(tmp_path / "model")
    settings = _settings(model, steps=8, schedule=axes.Pipeline(k=2))
    trained = []
    step, publish = Trainer.step, SplitLoop._publish

    def watched(self, groups):
        trained.append([group.group for group in groups])
        return step(self, groups)

    def dies(self):
        publish(self)
        if self.learner.version == 5:
            os.kill(self._process.pid, signal.SIGKILL)

    with small_task(), patch.object(Trainer, "step", watched):
        with patch.object(SplitLoop, "_publish", dies), pytest.raises(RunStopped, match="process ended"):
            train_run(settings, tmp_path / "run", Silent())
        checkpoint = latest_checkpoint(tmp_path / "run" / "checkpoints")
        assert checkpoint.step == 4
        del trained[checkpoint.step :]
        train_run(settings, tmp_path / "run", Silent())
    rows = _rows(tmp_path / "run")
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert all(row["staleness_max"] <= 2 for row in rows)
    assert len(trained) == 8
    flat = [group for groups in trained for group in groups]
    assert len(flat) == len(set(flat)) == 8 * 4, "no group lost, none trained on twice"


def test_a_simulated_clock_with_two_processes_is_refused(tmp_path):
    from small_run import CLOCK

    model = write_model(tmp_path / "model")
    settings = _settings(model, steps=2).model_copy(update={"clock": CLOCK})
    with small_task(), pytest.raises(UserError, match="processes"):
        train_run(settings, tmp_path / "run", Silent())
