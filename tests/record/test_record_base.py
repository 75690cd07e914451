"""The run record: what is written is what is loaded, also after a crash."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalerl
from scalerl.errors import UserError
from scalerl.record.prompts import PerPrompt, binomial_stderr
from scalerl.record.schema import Compute, Devices, Evaluation, RunHeader
from scalerl.record.write import RunWriter


def header(**fields) -> RunHeader:
    return RunHeader(name="a", recipe={"loss": "cispo"}, seed=3, held_out_hash="abc", **fields)


def compute(step: int) -> Compute:
    return Compute(
        device_hours=0.5 * step, tokens_generated=10 * step, tokens_trained=8 * step, flops=1e9 * step
    )


def evaluation(step: int, rate: float, **fields) -> Evaluation:
    return Evaluation(step=step, policy_version=step, pass_rate=rate, compute=compute(step), **fields)


def test_round_trip_is_exact(tmp_path):
    writer = RunWriter.create(
        tmp_path / "r", header(devices=Devices(kind="H200", generators=64, trainers=16))
    )
    third = 1.0 / 3.0
    writer.evaluation(evaluation(0, third, prompts=3, samples=12))
    writer.step(
        {"step": 1, "reward": 0.1 + 0.2, "lr": np.float32(0.1), "bad": math.nan, "compute": compute(1)}
    )
    writer.event("restart", "from step 1", step=1)
    writer.timing({"step": 1, "generate": 1.25})
    run = scalerl.load(tmp_path / "r")
    assert run.header == writer.header
    assert run.header.devices.total == 80
    assert run.evaluations == (evaluation(0, third, prompts=3, samples=12),)
    assert run.steps[0]["reward"] == 0.1 + 0.2
    assert run.steps[0]["bad"] is None
    assert run.events == ({"kind": "restart", "message": "from step 1", "step": 1},)
    assert run.timings == ({"step": 1, "generate": 1.25},)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_floats_round_trip(values):
    from scalerl.record.lines import encode

    assert orjson.loads(encode(values)) == values


def test_torn_last_line_is_dropped_with_a_warning_and_cut_on_resume(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    for step in (1, 2):
        writer.step({"step": step, "compute": compute(step)})
    path = tmp_path / "r" / "steps.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step":3,"comp')
    with pytest.warns(UserWarning, match=r"steps.jsonl:3: torn last line"):
        run = scalerl.load(tmp_path / "r")
    assert [row["step"] for row in run.steps] == [1, 2]
    assert len(run.warnings) == 1
    with pytest.warns(UserWarning, match="torn"):
        again = RunWriter.open(tmp_path / "r")
    again.step({"step": 3, "compute": compute(3)})
    assert [row["step"] for row in scalerl.load(tmp_path / "r").steps] == [1, 2, 3]


def test_whole_last_line_without_newline_is_kept_on_resume(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    path = tmp_path / "r" / "events.jsonl"
    path.write_bytes(b'{"kind":"a","message":"b"}')
    RunWriter.open(tmp_path / "r").event("c", "d")
    assert [e["kind"] for e in scalerl.load(tmp_path / "r").events] == ["a", "c"]


def test_a_bad_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    (tmp_path / "r" / "steps.jsonl").write_bytes(
        b'{"step":1,"compute":{}}\nrubbish\n{"step":2,"compute":{}}\n'
    )
    with pytest.raises(UserError, match=r"steps\.jsonl:2"):
        scalerl.load(tmp_path / "r")


def test_of_a_repeated_step_the_last_line_wins(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    for reward in (1, 2):
        writer.step({"step": 5, "reward": reward, "compute": compute(5)})
        writer.evaluation(evaluation(5, reward / 10))
    writer.evaluation(evaluation(5, 0.9, set="other"))
    run = scalerl.load(tmp_path / "r")
    assert [row["reward"] for row in run.steps] == [2]
    assert [e.pass_rate for e in run.evaluations] == [0.2, 0.9]


def test_rewind_drops_what_comes_after_a_step(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    for step in (0, 10, 20):
        writer.step({"step": step, "compute": compute(step)})
        writer.evaluation(evaluation(step, 0.5), (["p"], [1], [2]))
    assert writer.rewind(10) == 2
    run = scalerl.load(tmp_path / "r")
    assert [row["step"] for row in run.steps] == [0, 10]
    assert [e.step for e in run.evaluations] == [0, 10]
    assert sorted(p.name for p in (tmp_path / "r" / "prompts").iterdir()) == [
        "step-000000.parquet",
        "step-000010.parquet",
    ]
    assert writer.rewind(0, evals=False) == 1
    assert len(scalerl.load(tmp_path / "r").evaluations) == 2


def test_per_prompt_stderr_by_hand():
    counts = PerPrompt.of(["a", "b"], [1, 2], [4, 4])
    # v_a = .25*.75*4/3 = .25, v_b = .25*4/3 = 1/3; sqrt((.25 + 1/3)/4)/2
    assert counts.stderr() == pytest.approx(math.sqrt((0.25 + 1 / 3) / 4) / 2)
    assert PerPrompt.of(["a"], [0], [0]).stderr() is None
    # sampled once: pooled p(1-p) = .25 for both prompts
    assert PerPrompt.of(["a", "b"], [1, 0], [1, 1]).stderr() == pytest.approx(math.sqrt(0.5) / 2)


def test_per_prompt_stderr_is_unbiased_for_the_variance():
    rng = np.random.default_rng(0)
    p, k = np.array([0.1, 0.5, 0.9, 0.3]), 4
    draws = rng.binomial(k, p, size=(20000, 4))
    squared = np.mean([PerPrompt.of(list("abcd"), row, [k] * 4).stderr() ** 2 for row in draws[:4000]])
    true = np.sum(p * (1 - p) / k) / 16
    assert squared == pytest.approx(true, rel=0.03)
    assert np.var(draws.mean(axis=1) / k) == pytest.approx(true, rel=0.03)


@given(st.floats(0, 1), st.integers(1, 10000))
def test_binomial_bound_is_positive(rate, samples):
    assert binomial_stderr(rate, samples) > 0


def test_curve_axis_order_r0_and_stderr(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    writer.evaluation(evaluation(0, 0.2, samples=100))
    writer.evaluation(evaluation(0, 0.4, samples=100, repeat=1))
    writer.evaluation(evaluation(10, 0.5, samples=100))
    curve = scalerl.load(tmp_path / "r").curve()
    assert curve.axis == "device_hours"
    assert curve.compute.tolist() == [0.0, 5.0]
    assert curve.pass_rate.tolist() == [pytest.approx(0.3), 0.5]
    assert curve.r0 == pytest.approx(0.3)
    assert curve.r0_stderr == pytest.approx(math.sqrt(0.2 * 0.8 / 100 + 0.4 * 0.6 / 100) / 2)
    assert curve.stderr[1] == pytest.approx(0.05)
    assert (curve.stderr_kind, curve.held_out_hash, curve.label) == ("binomial", "abc", "held-out pass rate")
    assert scalerl.load(tmp_path / "r").curve(axis="flops").compute.tolist() == [0.0, 1e10]


def test_curve_takes_per_prompt_counts_and_falls_to_steps(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    written = writer.evaluation(
        Evaluation(step=1, pass_rate=0.375, compute=Compute()), (["a", "b"], [1, 2], [4, 4])
    )
    curve = scalerl.load(tmp_path / "r").curve()
    assert (curve.axis, curve.stderr_kind, curve.r0) == ("steps", "per-prompt", None)
    assert curve.stderr[0] == written.stderr == pytest.approx(math.sqrt((0.25 + 1 / 3) / 4) / 2)


def test_curve_default_set_is_the_one_with_most_points(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header(labels={"train": "train reward, not held-out"}))
    writer.evaluation(evaluation(1, 0.1))
    for step in (1, 2, 3):
        writer.evaluation(evaluation(step, 0.3, set="train"))
    for step in (1, 2):
        writer.evaluation(evaluation(step, 0.3, set="reward"))
    run = scalerl.load(tmp_path / "r")
    assert run.sets == {"held_out": 1, "train": 3, "reward": 2}
    assert run.curve().set == "reward"
    assert run.curve("train").label == "train reward, not held-out"
    with pytest.raises(UserError, match=r"no evaluation set 'x'.*held_out \(1\), train \(3\), reward \(2\)"):
        run.curve("x")
    with pytest.raises(UserError, match="no axis"):
        run.curve(axis="hours")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"schema_version": 2, "name": "a"}', "'schema_version' is 2, this scalerl reads 1"),
        (b'{"name": "a"}', "'schema_version' is None"),
        (b'{"schema_version": 1, "name": "a", "sed": 3}', "field 'sed'"),
        (b'{"schema_version": 1, "name": "a", "seed": "x"}', "field 'seed'"),
        (b"[1]", "expected a JSON object"),
        (b"{", "not valid JSON"),
    ],
)
def test_a_bad_header_is_one_clear_line(tmp_path, content, says):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UserError, match=r"run\.json") as caught:
        scalerl.load(tmp_path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_evaluation_line_names_file_line_and_field(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    (tmp_path / "r" / "evals.jsonl").write_bytes(b'{"step":1,"pass_rate":null,"compute":{}}\n')
    with pytest.raises(UserError, match=r"evals.jsonl:1: field 'pass_rate'"):
        scalerl.load(tmp_path / "r")


def test_create_never_overwrites_and_open_needs_a_record(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    with pytest.raises(UserError, match="already"):
        RunWriter.create(tmp_path / "r", header())
    with pytest.raises(UserError, match=r"no run\.json"):
        RunWriter.open(tmp_path / "x")


def test_same_as_ignores_timings_and_start_and_names_a_difference(tmp_path):
    for name, started in (("a", "1"), ("b", "2")):
        writer = RunWriter.create(tmp_path / name, header(started=started))
        writer.step({"step": 1, "reward": 0.5, "compute": compute(1)})
        writer.timing({"s": started})
    a, b = scalerl.load(tmp_path / "a"), scalerl.load(tmp_path / "b")
    assert a.same_as(b)
    RunWriter.open(tmp_path / "b").step({"step": 1, "reward": 0.6, "compute": compute(1)})
    assert a.difference(scalerl.load(tmp_path / "b")) == "step row 0: reward: 0.5 against 0.6"


def test_options_for_foreign_logs_are_refused_for_a_record(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    assert scalerl.load(tmp_path / "r" / "run.json", scale="unit").name == "a"
    with pytest.raises(UserError, match="--scale, --devices is for other trainers' logs"):
        scalerl.load(tmp_path / "r", scale="percent", devices="8")


def test_to_frame(tmp_path):
    writer = RunWriter.create(tmp_path / "r", header())
    writer.evaluation(evaluation(2, 0.5))
    frame = scalerl.load(tmp_path / "r").to_frame()
    assert frame["device_hours"].tolist() == [1.0]
    assert frame["pass_rate"].tolist() == [0.5]
    with pytest.raises(UserError, match="isn't one of"):
        scalerl.load(tmp_path / "r").to_frame("x")


def test_killed_while_writing_leaves_a_record_that_loads(tmp_path):
    program = textwrap.dedent(
        f"""
        from scalerl.record.schema import Compute, RunHeader
        from scalerl.record.write import RunWriter
        w = RunWriter.create({str(tmp_path / "r")!r}, RunHeader(name="k"))
        print("go", flush=True)
        step = 0
        while True:
            step += 1
            w.step({{"step": step, "pad": "x" * 3000, "compute": Compute()}})
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        path = tmp_path / "r" / "steps.jsonl"
        while not path.exists() or path.stat().st_size < 200_000:
            pass
        os.kill(process.pid, signal.SIGKILL)
    run = scalerl.load(Path(tmp_path / "r"))
    assert [row["step"] for row in run.steps] == list(range(1, len(run.steps) + 1))
    assert len(run.steps) > 50


def test_what_a_killed_atomic_write_left_is_cleared_on_opening(tmp_path):
    RunWriter.create(tmp_path / "r", header())
    (tmp_path / "r" / "prompts").mkdir()
    left = [tmp_path / "r" / ".steps.jsonl.7.tmp", tmp_path / "r" / "prompts" / ".step-000010.parquet.7.tmp"]
    for path in left:
        path.write_bytes(b"torn")
    RunWriter.open(tmp_path / "r")
    assert not any(path.exists() for path in left)
