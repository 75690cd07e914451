"""Learning under the simulated clock: the plain loop's numbers, the order of events, resume after SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.torch import load_file
from small_run import CLOCK, CLUSTER, Silent, config, small_task, write_model

import scalerl
from scalerl.loop import simulated
from scalerl.loop.clock import Clock
from scalerl.loop.run import train_run as train
from scalerl.loop.selective import SelectiveEngine
from scalerl.loop.timed_content import TimedContent
from scalerl.loop.trainer import Trainer
from scalerl.recipe import axes
from scalerl.record.lines import read_lines


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def _run(settings, path):
    """Run to the end; the groups of every trainer step, in order."""
    seen = []
    step = Trainer.step

    def watched(self, groups):
        seen.append(list(groups))
        return step(self, groups)

    with small_task(), patch.object(Trainer, "step", watched):
        train(settings, path, Silent())
    return seen


def _weights(path):
    newest = sorted((path / "checkpoints").iterdir())[-1]
    return load_file(newest / "model.safetensors")


def _same_completions(left, right, tolerance):
    assert [[g.group for g in step] for step in left] == [[g.group for g in step] for step in right]
    pairs = [
        (a, b)
        for one, other in zip(left, right, strict=True)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x.completions, y.completions, strict=True)
    ]
    for a, b in pairs:
        assert a.tokens.tolist() == b.tokens.tolist()
        assert a.versions.tolist() == b.versions.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=tolerance)


def test_on_policy_under_the_clock_is_the_plain_loop(model, tmp_path):
    schedule = axes.PpoOffPolicy(k=1)
    timed = _run(config(model, schedule=schedule), tmp_path / "timed")
    plain = _run(config(model, clock=None, schedule=schedule), tmp_path / "plain")
    _same_completions(timed, plain, 1e-5)
    rates = [scalerl.load(tmp_path / name).curve().pass_rate.tolist() for name in ("timed", "plain")]
    assert rates[0] == rates[1]
    assert scalerl.load(tmp_path / "timed").curve().axis == "device_hours"


class _Eager(TimedContent):
    """Each device alone, each token when its step begins: the definition, without the batching."""

    def run(self, device):
        steps = super().run(device)
        self._decode()
        return steps


@pytest.mark.parametrize("schedule", [axes.Pipeline(k=2), axes.PpoOffPolicy(k=2)])
def test_decoding_devices_together_changes_nothing(model, tmp_path, schedule):
    lazy = _run(config(model, schedule=schedule), tmp_path / "lazy")
    with patch.object(simulated, "TimedContent", _Eager):
        eager = _run(config(model, schedule=schedule), tmp_path / "eager")
    _same_completions(lazy, eager, 1e-5)
    hours = [_rows(tmp_path / name)[-1]["compute"]["device_hours"] for name in ("lazy", "eager")]
    assert hours[0] == hours[1]


def _rows(path):
    return [row for _, row in read_lines(path / "steps.jsonl")]


def test_pipeline_mixes_versions_within_the_bound(model, tmp_path):
    steps = _run(config(model, schedule=axes.Pipeline(k=2), steps=10), tmp_path / "run")
    trained = [group.group for step in steps for group in step]
    assert len(trained) == len(set(trained))
    completions = [c for step in steps for group in step for c in group.completions]
    assert all((np.diff(c.versions) >= 0).all() for c in completions)
    assert any(c.versions[0] < c.versions[-1] for c in completions), "weights change within a completion"
    for version, step in enumerate(steps):
        for group in step:
            assert all(
                version - 2 <= c.versions.min() <= c.versions.max() <= version for c in group.completions
            )


def test_rows_hold_the_clock(model, tmp_path):
    _run(config(model, schedule=axes.Pipeline(k=2)), tmp_path / "run")
    rows = _rows(tmp_path / "run")
    seconds = 0.0
    for row in rows:
        seconds += row["simulated_seconds"]
        assert row["compute"]["device_hours"] == pytest.approx(4 * seconds / 3600)
        busy, idle = row["simulated_generator_busy_seconds"], row["simulated_generator_idle_seconds"]
        assert busy + idle == pytest.approx(3 * row["simulated_seconds"])
        busy, idle = row["simulated_trainer_busy_seconds"], row["simulated_trainer_idle_seconds"]
        assert busy + idle == pytest.approx(row["simulated_seconds"])
        assert 0 < row["length_cv"] < 2
        assert row["staleness_max"] <= 2
        assert 0 <= row["token_staleness_mean"] <= row["staleness_mean"]
    header = scalerl.load(tmp_path / "run").header
    assert header.clock["profile"] == CLUSTER.model_dump()
    assert header.clock["tokens_per_token"] == CLOCK.tokens_per_token
    assert header.devices.total == 4


def test_recomputing_the_cache_is_slower_and_learns_too(model, tmp_path):
    def settings(recompute):
        plain = config(model, schedule=axes.Pipeline(k=2), steps=6)
        return plain.model_copy(
            update={"engine": plain.engine.model_copy(update={"recompute_kv_on_update": recompute})}
        )

    stale = _run(settings(False), tmp_path / "stale")
    fresh = _run(settings(True), tmp_path / "fresh")
    assert _rows(tmp_path / "fresh")[-1]["step"] == 6
    assert any(
        a.tokens.tolist() != b.tokens.tolist() or not np.allclose(a.logprobs, b.logprobs, atol=1e-6)
        for x, y in zip(stale, fresh, strict=True)
        for g, h in zip(x, y, strict=True)
        for a, b in zip(g.completions, h.completions, strict=True)
    )


def test_state_round_trips_between_any_two_events(model, tmp_path):
    """Stopped in the middle of decoding, a transfer and a trainer step; the restored loop goes on alike."""
    from scalerl.loop.run import build_loop
    from scalerl.loop.setup import build_learner, open_record, pinned, save_model, task_of
    from scalerl.loop.state_file import load_state, save_state

    settings = config(model, schedule=axes.Pipeline(k=2), steps=9)
    with small_task(), pinned(settings):
        task = task_of(settings)
        writer, _ = open_record(settings, task, tmp_path / "run")
        loop = build_loop(settings, build_learner(settings, task, writer, Silent(), None))
        moments = set(random.Random(0).sample(range(10, 150), 6))
        handled = [0]
        saved = []
        pass_boundary = Clock._pass_boundary

        def watched(self, device):
            pass_boundary(self, device)
            handled[0] += 1
            if handled[0] in moments and self is loop.clock:
                folder = tmp_path / f"moment-{handled[0]}"
                folder.mkdir()
                save_state(folder, loop.state_dict())
                save_model(loop.learner.trainer.policy, model, folder)
                saved.append(folder)

        with patch.object(Clock, "_pass_boundary", watched):
            for _ in range(6):
                loop.clock.advance()
        final = {name: w.clone() for name, w in loop.learner.trainer.policy.weights().items()}
        assert len(saved) == 6
        for folder in saved:
            writer, _ = open_record(settings, task, tmp_path / f"again-{folder.name}")
            again = build_loop(settings, build_learner(settings, task, writer, Silent(), folder))
            again.load_state_dict(load_state(folder))
            while again.learner.version < 6:
                again.clock.advance()
            assert again.clock.now == loop.clock.now
            for name, weight in again.learner.trainer.policy.weights().items():
                assert weight.equal(final[name]), name


def _child(settings, path):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with small_task():
        train(settings, path, Silent())


def _recorded(path):
    file = path / "steps.jsonl"
    return len(file.read_bytes().splitlines()) if file.exists() else 0


def _kill_and_resume(settings, path, kills, seed):
    """Run in child processes, each killed a moment after a random step, until one gets to the end; how many
    were.
    """
    fork = multiprocessing.get_context("fork")
    rng = random.Random(seed)
    done = 0
    while True:
        child = fork.Process(target=_child, args=(settings, path))
        child.start()
        if done == kills:
            child.join()
            assert child.exitcode == 0
            return done
        step = rng.randrange(settings.steps * 2 // 3)
        while _recorded(path) < step and child.is_alive():
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(child.pid, signal.SIGKILL)  # not reaped yet, so the process is there even if it's over
        child.join()
        if child.exitcode == 0:
            return done
        assert child.exitcode == -signal.SIGKILL
        done += 1


def _assert_same_record(path, other):
    for name in ("steps.jsonl", "evals.jsonl"):
        assert read_lines(path / name) == read_lines(other / name)
    prompts = sorted(p.name for p in (path / "prompts").iterdir())
    assert prompts == sorted(p.name for p in (other / "prompts").iterdir())
    for name in prompts:
        assert (path / "prompts" / name).read_bytes() == (other / "prompts" / name).read_bytes()
    left, right = _weights(path), _weights(other)
    assert left.keys() == right.keys()
    assert all(left[name].equal(right[name]) for name in left)


@pytest.mark.parametrize("schedule", [axes.Pipeline(k=2), axes.PpoOffPolicy(k=2)])
def test_killed_and_resumed_is_the_same_run_bit_for_bit(model, tmp_path, schedule):
    settings = config(model, schedule=schedule, steps=12)
    _run(settings, tmp_path / "whole")
    assert _kill_and_resume(settings, tmp_path / "killed", kills=3, seed=schedule.k) >= 1
    _assert_same_record(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_fifty_random_moments(model, tmp_path):
    settings = config(model, schedule=axes.Pipeline(k=2), steps=30)
    _run(settings, tmp_path / "whole")
    kills, trial = 0, 0
    while kills < 50:
        kills += _kill_and_resume(settings, tmp_path / f"killed-{trial}", kills=5, seed=trial)
        _assert_same_record(tmp_path / f"killed-{trial}", tmp_path / "whole")
        trial += 1
    print(f"{kills} kills in {trial} runs")


def test_the_engine_holds_who_isnt_due(model):
    """Decoding completions in turns gives the tokens of decoding them together."""
    from scalerl.generate.protocol import Budget, GroupRequest
    from scalerl.policy.load import load_policy

    requests = [GroupRequest(g, f"p{g}", (3 + g, 5, 6), (Budget(9, 3),) * 4) for g in range(3)]
    members = [(request, sample) for request in requests for sample in range(4)]

    def engine():
        return SelectiveEngine(load_policy(model), slots=12, seed=5, end_token=1, close_thinking=(3,))

    together, turns = engine(), engine()
    want = together.decode(members, ())
    while together.active:
        want += together.decode([], ())
    rng = random.Random(1)
    waiting, got = list(members), []
    while waiting or turns.active:
        count = rng.randint(0, len(waiting))
        starting, waiting = waiting[:count], waiting[count:]
        inside = {(c[0].group, c[1]) for c in members} - {(r.group, s) for r, s in (*waiting, *starting)}
        got += turns.decode(starting, {member for member in inside if rng.random() < 0.5})
    assert len(got) == 12
    for a, b in zip(
        sorted(want, key=lambda c: (c.group, c.sample)),
        sorted(got, key=lambda c: (c.group, c.sample)),
        strict=True,
    ):
        assert a.tokens.tolist() == b.tokens.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
