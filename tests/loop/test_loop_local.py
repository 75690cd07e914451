"""The plain local loop: deterministic, resumable bit for bit, refusing what isn't its own."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
from small_run import Silent, config, small_task, write_model

import scalerl
from scalerl.errors import UserError
from scalerl.loop.learner import RunStopped
from scalerl.loop.record_lock import lock_record
from scalerl.loop.run import config_of_record, train_run
from scalerl.policy.load import load_policy
from scalerl.recipe.axes import Pipeline, PpoOffPolicy, Uniform


class Stop(Exception):  # noqa: N818
    pass


class StopAt(Silent):
    """Ends the run in the middle of things, as a crash would."""

    def __init__(self, step):
        self.step = step

    def on_step(self, row):
        if row["step"] == self.step:
            raise Stop


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def run(path, the_config, listener=None):
    with small_task():
        train_run(the_config, path, listener or Silent())
    return scalerl.load(path)


def weights(path, step):
    return load_policy(path / "checkpoints" / f"step-{step:06d}").weights()


def plain(model, schedule=None, **changes):
    return config(model, steps=8, clock=None, schedule=schedule or Pipeline(k=8), **changes)


@pytest.mark.parametrize("schedule", [Pipeline(k=2), PpoOffPolicy(k=3)])
def test_a_seed_gives_the_same_run_bit_for_bit(model, tmp_path, schedule):
    a = run(tmp_path / "a", plain(model, schedule))
    b = run(tmp_path / "b", plain(model, schedule))
    assert a.evaluations == b.evaluations
    assert a.steps == b.steps
    for name, weight in weights(tmp_path / "a", 8).items():
        assert (weight == weights(tmp_path / "b", 8)[name]).all()


def test_another_seed_gives_another_run(model, tmp_path):
    a = run(tmp_path / "a", plain(model))
    b = run(tmp_path / "b", plain(model).model_copy(update={"seed": 1}))
    assert [row["mean_length"] for row in a.steps] != [row["mean_length"] for row in b.steps]


@pytest.mark.parametrize("schedule", [Pipeline(k=2), PpoOffPolicy(k=3)])
@pytest.mark.parametrize("crash_at", [1, 5])
def test_a_crashed_run_goes_on_to_the_same_record(model, tmp_path, schedule, crash_at):
    whole = run(tmp_path / "whole", plain(model, schedule))
    with pytest.raises(Stop):
        run(tmp_path / "cut", plain(model, schedule), StopAt(crash_at))
    said = []
    listener = Silent()
    listener.on_event = lambda kind, message: said.append(kind)
    resumed = run(tmp_path / "cut", plain(model, schedule), listener)
    assert [kind for kind in said if kind != "no effect"] == ["resume"]
    assert resumed.evaluations == whole.evaluations
    assert resumed.steps == whole.steps
    for name, weight in weights(tmp_path / "cut", 8).items():
        assert (weight == weights(tmp_path / "whole", 8)[name]).all()


def test_it_learns(model, tmp_path):
    recorded = run(tmp_path / "a", plain(model).model_copy(update={"steps": 30}))
    rates = [row["pass_rate"] for row in recorded.steps if "pass_rate" in row]
    assert np.mean(rates[-5:]) > np.mean(rates[:5]) + 0.2


def test_compute_is_the_stated_formula(model, tmp_path):
    recorded = run(tmp_path / "a", plain(model, batch="all", curriculum=Uniform()))
    parameters = load_policy(model).parameters_without_embeddings()
    last = recorded.steps[-1]["compute"]
    forwarded = sum(row["tokens_forwarded"] for row in recorded.steps)
    prefilled = last["flops"] / (2 * parameters) - 3 * forwarded - last["tokens_generated"]
    assert prefilled == int(prefilled)
    assert (
        8 * 4 * 4 <= prefilled <= 16 * 4 * 12
    )  # 4 prompts of 4 to 12 tokens a step; twice that with those in flight
    assert recorded.evaluations[0].compute.flops == 0


def test_a_record_of_another_run_is_refused(model, tmp_path):
    run(tmp_path / "a", plain(model).model_copy(update={"steps": 1}))
    with pytest.raises(UserError, match=r"run\.json.*another run"):
        run(tmp_path / "a", plain(model).model_copy(update={"steps": 1, "seed": 9}))


def test_two_writers_are_refused(model, tmp_path):
    with lock_record(tmp_path / "a"), pytest.raises(UserError, match=r"process .* is writing this run"):
        run(tmp_path / "a", plain(model))


def test_the_config_of_a_record_is_the_run_s(model, tmp_path):
    the_config = plain(model).model_copy(update={"steps": 1})
    run(tmp_path / "a", the_config)
    assert config_of_record(tmp_path / "a") == the_config
    with pytest.raises(UserError, match=r"no run\.json"):
        config_of_record(tmp_path / "b")


def test_nothing_left_to_train_on_ends_the_run(model, tmp_path):
    curriculum = {"kind": "no_positive_resampling", "threshold": 1e-9}
    with pytest.raises(RunStopped, match="every training prompt is retired"):
        run(tmp_path / "a", plain(model, curriculum=curriculum).model_copy(update={"steps": 60}))


def test_staleness_is_within_the_schedule_s_bound(model, tmp_path):
    for schedule, bound in ((Pipeline(k=1), 1), (PpoOffPolicy(k=3), 2)):
        recorded = run(tmp_path / f"{schedule.kind}", plain(model, schedule))
        assert max(row["staleness_max"] for row in recorded.steps) <= bound
    assert json.loads((tmp_path / "pipeline" / "run.json").read_text())["seed"] == 0


def test_the_collector_is_spared_what_was_there_for_the_run_s_length_only(model, tmp_path):
    class Watch(StopAt):
        spared = 0

        def on_step(self, row):
            self.spared = gc.get_freeze_count()
            super().on_step(row)

    watch = Watch(3)
    with pytest.raises(Stop):
        run(tmp_path, plain(model), watch)
    assert watch.spared > 10_000
    assert gc.get_freeze_count() == 0
