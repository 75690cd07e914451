# ruff: noqa: E501 - literal logs
"""Live recording, conversion and watching, with faked trainers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import scalerl
from scalerl.errors import UserError
from scalerl.record.convert import write_record, write_records
from scalerl.record.live import LiveRecord
from scalerl.record.live_verl import RecordBackend, add_record
from scalerl.record.load import load_all
from scalerl.record.schema import Compute, Evaluation, RunHeader
from scalerl.record.write import RunWriter


def trainer_state(tmp_path):
    rows = []
    for step in range(1, 13):
        rows.append({"step": step, "reward": 0.1, "num_tokens": 100 * step})
        rows.append({"step": step, "eval_reward": 0.2 + 0.5 * step / (step + 4)})
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows}))
    return path


def test_trl_callback_records_training_and_evaluation(tmp_path):
    transformers = pytest.importorskip("transformers")
    from scalerl.record.live_trl import record_callback

    callback = record_callback(tmp_path / "r", devices="8:H100", params=1e9)
    assert isinstance(callback, transformers.TrainerCallback)
    for step in (1, 2):
        state = SimpleNamespace(global_step=step, is_world_process_zero=True)
        callback.on_log(
            None,
            state,
            None,
            logs={"reward": 0.25 * step, "num_tokens": 50.0 * step, "step_time": 9.0, "note": "x"},
        )
        callback.on_log(None, state, None, logs={"eval_reward": 0.5, "eval_loss": 0.1})
        callback.on_log(
            None, SimpleNamespace(global_step=step, is_world_process_zero=False), None, logs={"reward": 9.0}
        )
    run = scalerl.load(tmp_path / "r")
    assert run.sets == {"train_reward": 2, "eval_reward": 2}
    curve = run.curve()
    assert (curve.set, curve.axis, curve.label) == ("eval_reward", "device_hours", "held-out pass rate")
    assert curve.compute.tolist() == pytest.approx([9 * 8 / 3600, 18 * 8 / 3600])
    assert run.curve("train_reward").pass_rate.tolist() == [0.25, 0.5]
    assert run.curve("train_reward").label == "train reward, not held-out"
    assert run.steps[1]["eval_reward"] == 0.5
    assert run.steps[1]["reward"] == 0.5
    assert run.steps[1]["compute"] == {
        "device_hours": 0.04,
        "tokens_trained": 100,
        "flops": 8e11,
        "seconds": 18.0,
    }


def test_verl_back_end(tmp_path):
    tracking = SimpleNamespace(logger={"console": None})
    backend = add_record(tracking, tmp_path / "r", devices="6+2")
    assert tracking.logger["scalerl"] is backend
    backend.log(data={"val-core/m/acc/mean@16": np.float64(0.1)}, step=0)
    for step in (1, 2):
        data = {
            "critic/score/mean": np.float32(0.5),
            "perf/total_num_tokens": 10,
            "timing_s/step": 45.0,
            "bad": np.ones(3),
        }
        backend.log(data=data | ({"val-core/m/acc/mean@16": 0.3} if step == 2 else {}), step=step)
    backend.finish()
    run = scalerl.load(tmp_path / "r")
    curve = run.curve()
    assert (curve.set, curve.r0, curve.compute.tolist()) == (
        "val-core/m/acc/mean@16",
        0.1,
        pytest.approx([0, 0.2]),
    )
    assert [row["compute"].get("tokens_trained") for row in run.steps] == [None, 10, 20]


def verl_tracking():
    """verl's own module of tracking back ends, without the rest of verl, which needs Ray and torch."""
    spec = importlib.util.find_spec("verl")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("verl isn't installed")
    file = Path(spec.submodule_search_locations[0]) / "utils" / "tracking.py"
    found = importlib.util.spec_from_file_location("verl_tracking", file)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_verl_s_own_tracking_writes_the_record_and_its_file_reads_the_same(tmp_path, monkeypatch):
    module = verl_tracking()
    monkeypatch.setenv("VERL_FILE_LOGGER_ROOT", str(tmp_path))
    tracking = module.Tracking("project", "run", default_backend=["file"])
    add_record(tracking, tmp_path / "r", devices="8")
    tracking.log(data={"val-core/m/acc/mean@16": 0.125}, step=0)
    for step in range(1, 9):
        data = {"critic/score/mean": 0.25, "timing_s/step": 45.0, "perf/total_num_tokens": 10}
        tracking.log(data=data | {"val-core/m/acc/mean@16": step / 16}, step=step)
    tracking.log(data={"critic/score/mean": 0.75}, step=9, backend=["file"])
    tracking.finish()
    ours = scalerl.load(tmp_path / "r").curve(axis="device_hours")
    theirs = scalerl.load(tmp_path / "project" / "run.jsonl", devices="8").curve()
    assert ours.compute.tolist() == theirs.compute.tolist()
    assert ours.compute.tolist() == pytest.approx([step * 0.1 for step in range(9)])
    assert ours.pass_rate.tolist() == theirs.pass_rate.tolist() == [0.125, *(s / 16 for s in range(1, 9))]
    assert ours.r0 == 0.125


def test_a_resumed_trainer_continues_the_record(tmp_path):
    first = LiveRecord(tmp_path / "r", devices="1")
    for step in (1, 2, 3):
        first.log(step, {"reward": 0.1 * step, "step_time": 36.0, "num_tokens": 10 * step})
    second = LiveRecord(tmp_path / "r", devices="1")
    for step in (3, 4):
        second.log(step, {"reward": 0.9, "step_time": 36.0, "num_tokens": 10 * step})
    run = scalerl.load(tmp_path / "r")
    assert run.curve().pass_rate.tolist() == pytest.approx([0.1, 0.2, 0.9, 0.9])
    assert run.curve().compute.tolist() == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert run.events[0]["kind"] == "restart"


def test_what_is_no_pass_rate_is_left_out_and_said_once(tmp_path):
    live = LiveRecord(tmp_path / "r")
    for step in (1, 2):
        live.log(step, {"reward": 1.5, "eval_reward": 0.5, "eval/accuracy": 0.5})
        live.log(step + 2, {"critic/score/mean": 0.5, "critic/score/max": 3.0})
    run = scalerl.load(tmp_path / "r")
    assert run.sets == {"eval/accuracy": 2}
    assert [e["message"].split(" isn't")[0] for e in run.events if e["kind"] == "alarm"] == [
        "eval_reward",
        "reward",
        "critic/score/mean",
    ]
    signed = RecordBackend(tmp_path / "s", y="critic/score/mean", scale="pm1")
    signed.log({"critic/score/mean": -0.5, "val-core/x/acc/mean@1": 0.1}, 1)
    assert scalerl.load(tmp_path / "s").curve().pass_rate.tolist() == [0.25]
    with pytest.raises(UserError, match="--scale odd"):
        LiveRecord(tmp_path / "t", scale="odd")


def test_record_room_imports_neither_torch_nor_transformers():
    code = "import scalerl.record.load, scalerl.record.live_trl, scalerl.record.live_verl, sys; print({'torch', 'transformers', 'tensorboard', 'wandb', 'pandas'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_a_converted_run_is_the_same_run(tmp_path):
    run = scalerl.load(trainer_state(tmp_path), devices=None)
    write_record(run, tmp_path / "r")
    again = scalerl.load(tmp_path / "r")
    assert again.provenance == run.provenance
    ours, theirs = again.curve(), run.curve()
    assert (
        (ours.axis, ours.set, ours.label)
        == (theirs.axis, theirs.set, theirs.label)
        == ("tokens_trained", "eval_reward", "held-out pass rate")
    )
    assert ours.compute.tolist() == theirs.compute.tolist()
    assert ours.pass_rate.tolist() == theirs.pass_rate.tolist()
    assert run.difference(again) is None
    with pytest.raises(UserError, match="is there already"):
        write_record(run, tmp_path / "r")


def test_several_runs_become_a_folder_of_records(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "run,step,eval/acc\n" + "".join(f"{r},{s},0.{s}\n" for r in ("a/1", "a 1") for s in (1, 2, 3, 4))
    )
    places = write_records(load_all(table), tmp_path / "out")
    assert [p.name for p in places] == ["a_1", "a_1_"]
    assert sorted(load_all(tmp_path / "out")) == ["a_1", "a_1_"]


def run_cli(function, *arguments):
    import typer

    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_convert_verb(tmp_path):
    from scalerl.cli.convert import convert

    result = run_cli(convert, trainer_state(tmp_path), tmp_path / "r", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)[0]
    assert (said["source"]["y"], said["source"]["points"]) == ("eval_reward", 12)
    assert scalerl.load(tmp_path / "r").curve().axis == "tokens_trained"
    assert isinstance(run_cli(convert, tmp_path / "none", tmp_path / "x").exception, UserError)


def test_watch_verb_on_a_log_and_on_a_run_that_has_just_begun(tmp_path):
    from scalerl.cli.watch import watch

    result = run_cli(watch, trainer_state(tmp_path), "--once")
    assert result.exit_code == 0, result.output
    assert "0.5750" in result.output
    assert "ceiling A" in result.output
    said = json.loads(run_cli(watch, trainer_state(tmp_path), "--json").output)
    assert (said["step"], said["points"], said["axis"], said["forecast"]["at_compute"]) == (
        12,
        12,
        "tokens_trained",
        2400,
    )
    flops = json.loads(run_cli(watch, trainer_state(tmp_path), "--params", "1e9", "--json").output)
    assert (flops["axis"], flops["compute"]) == ("flops", 8e9 * 1200)
    RunWriter.create(tmp_path / "r", RunHeader(name="new"))
    assert "no evaluation yet" in run_cli(watch, tmp_path / "r", "--once").output


def test_watch_takes_what_fit_takes_for_a_log(tmp_path):
    from scalerl.cli.watch import watch

    path = tmp_path / "log.csv"
    rows = [f"{tea},{s},0.{s}" for tea in ("green", "black") for s in (1, 2, 3, 4, 5, 1, 2, 3)]
    path.write_text("tea,step,eval/acc\n" + "\n".join(rows) + "\n")
    said = run_cli(watch, f"{path}#black", "--group", "tea", "--restart", "append", "--json")
    assert json.loads(said.output)["points"] == 8
    said = run_cli(watch, f"{path}#green", "--group", "tea", "--restart", "last", "--json")
    assert (json.loads(said.output)["points"], json.loads(said.output)["step"]) == (3, 3)


def test_watch_sees_a_run_that_is_being_written(tmp_path):
    from scalerl.cli.watch import snapshot

    writer = RunWriter.create(tmp_path / "r", RunHeader(name="a"))
    for step in (0, 1):
        writer.evaluation(Evaluation(step=step, pass_rate=0.1 * step, compute=Compute(flops=float(step))))
        writer.step({"step": step, "reward": 0.5, "compute": Compute(flops=float(step))})
    with open(tmp_path / "r" / "evals.jsonl", "ab") as file:
        file.write(b'{"step":2,"pass_')
    said = snapshot(str(tmp_path / "r"), None, None, {})
    assert (said["step"], said["points"], said["forecast"], said["metrics"]) == (1, 2, None, {"reward": 0.5})


def test_real_wandb_offline_run(tmp_path):
    pytest.importorskip("wandb")
    if "SCALERL_SLOW_WANDB" not in os.environ:
        pytest.skip("starts W&B's own process; set SCALERL_SLOW_WANDB=1")
    code = (
        "import wandb; r = wandb.init(project='p', name='n', mode='offline')\n"
        "for i in range(1, 6): r.log({'train/global_step': i, 'eval/accuracy': i / 10})\nr.finish()"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, env={**os.environ, "WANDB_SILENT": "true"}
    )
    folder = next((tmp_path / "wandb").glob("offline-run-*"))
    assert scalerl.load(folder).curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_fit_verb_says_what_it_took_from_a_log(tmp_path):
    from scalerl.cli.fit import fit

    result = run_cli(fit, trainer_state(tmp_path), "--y", "eval_reward", "--json")
    assert result.exit_code == 0, result.output
    source = json.loads(result.output)["source"]
    assert (source["format"], source["x"], source["y"], source["points"], source["dropped"]) == (
        "transformers trainer_state.json",
        "num_tokens",
        "eval_reward",
        12,
        {},
    )
