"""Whole runs on every kind of task, with a model that can do nothing; evaluation of its checkpoints."""

import json
import os
import shutil
from pathlib import Path

import pytest
from character_model import save_character_model
from typer.testing import CliRunner

import scalerl
from scalerl.loop.config import CheckpointPlan, EvaluationPlan, RunConfig
from scalerl.loop.run import train_run
from scalerl.recipe.load import load_recipe
from scalerl.record.prompts import prompts_hash

PHRASE = "Time is up.</think>"


class Silent:
    def on_step(self, row):
        pass

    def on_evaluation(self, evaluation):
        pass

    def on_event(self, kind, message):
        pass


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_character_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    math = [{"prompt": f"{n}+1", "answer": str((n + 1) % 10)} for n in range(60)]
    code = [
        {"prompt": f"Print {n} times the input.", "tests": [{"input": "2\n", "output": f"{2 * n}\n"}]}
        for n in range(60)
    ]
    for name, rows in (("math", math), ("code", code)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def config(name, task, model, steps):
    recipe = load_recipe("scalerl").scaled_to(
        prompts_per_step=4,
        generations_per_prompt=4,
        max_prompt_tokens=600,
        max_thinking_tokens=12,
        max_answer_tokens=12,
    )
    recipe = recipe.replace(length_control={**dict(recipe.length_control), "phrase": PHRASE})
    return RunConfig(
        name=name,
        recipe=recipe,
        task=task,
        model=str(model),
        steps=steps,
        evaluation=EvaluationPlan(every_steps=steps, samples_per_prompt=2),
        checkpoint=CheckpointPlan(every_steps=max(1, steps // 2), keep_last=3),
    )


def tasks(files):
    math = {"kind": "math_file", "path": str(files / "math.jsonl"), "held_out_prompts": 6}
    code = {"kind": "code_file", "path": str(files / "code.jsonl"), "held_out_prompts": 6}
    procedural = {"kind": "reasoning_gym", "name": "chain_sum", "held_out_prompts": 6, "train_prompts": 60}
    mixed = {
        "kind": "mixture",
        "parts": [{"task": {**math, "name": "math"}}, {"task": {**code, "name": "code"}}],
    }
    return {"procedural": procedural, "math": math, "code": code, "mixture": mixed}


def check(run, steps):
    assert run.evaluations[-1].step == steps
    assert [row["step"] for row in run.steps] == list(range(1, steps + 1))
    assert all(0 <= evaluation.pass_rate <= 1 for evaluation in run.evaluations)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["procedural", "math", "code", "mixture"])
def test_twenty_steps(tmp_path, files, model, kind):
    if kind in ("code", "mixture") and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap isn't installed")
    train_run(config(kind, tasks(files)[kind], model, 20), tmp_path / "run", Silent())
    run = scalerl.load(tmp_path / "run")
    check(run, 20)
    assert run.sets == dict.fromkeys(["held_out", "math", "code"] if kind == "mixture" else ["held_out"], 2)


@pytest.mark.slow
def test_two_steps_and_evaluation_of_a_real_model(tmp_path):
    """On what `scalerl fetch-model smollm2` wrote: in models/, or where SCALERL_REAL_MODEL says."""
    default = Path(__file__).resolve().parents[2] / "models" / "SmolLM2-135M-Instruct"
    folder = Path(os.environ.get("SCALERL_REAL_MODEL", default))
    if not folder.is_dir():
        pytest.skip("scalerl fetch-model smollm2 --out models")
    rows = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(1, 33)]
    path = tmp_path / "easy.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"kind": "math_file", "path": str(path), "held_out_prompts": 4}
    train_run(config("real", task, folder, 2), tmp_path / "run", Silent())
    check(scalerl.load(tmp_path / "run"), 2)


def test_two_steps_then_eval_of_the_checkpoints(tmp_path, files, model):
    from scalerl.cli import main

    run = tmp_path / "run"
    train_run(config("math", tasks(files)["math"], model, 2), run, Silent())
    check(scalerl.load(run), 2)
    if not main.app.registered_commands:
        main._gather()
    options = ["--samples", "2", "--max-thinking-tokens", "8", "--max-answer-tokens", "8", "--phrase", PHRASE]
    sets = f"math:{files / 'math.jsonl'},name=easy"
    got = CliRunner().invoke(
        main.app, ["eval", str(run), "--on", sets, "--prompts", "3", *options, "--record", "--json"]
    )
    assert got.exit_code == 0, got.output
    rows = json.loads(got.stdout)
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert rows[0]["set"] == "easy"
    assert rows[0]["per_prompt"]["sampled"] == [2, 2, 2]
    loaded = scalerl.load(run)
    assert loaded.sets["easy"] == 3
    assert [e.step for e in loaded.evaluations if e.set == "easy"] == [0, 1, 2]
    curve = loaded.curve(set="easy", axis="steps")
    assert curve.compute.tolist() == [0, 1, 2]
    assert curve.r0 == curve.pass_rate[0]
    assert curve.held_out_hash == prompts_hash(rows[0]["per_prompt"]["prompt_ids"])
    refused = CliRunner().invoke(
        main.app, ["eval", str(run), "--on", f"math:{files / 'math.jsonl'},name=held_out", "--record"]
    )
    assert "of its own" in str(refused.exception)


def test_eval_says_what_is_wrong(tmp_path, model):
    from scalerl.cli import eval_points
    from scalerl.errors import UserError

    with pytest.raises(UserError, match="neither"):
        eval_points.find_checkpoints(tmp_path)
    with pytest.raises(UserError, match="--on"):
        eval_points.parse_sets([""])
    with pytest.raises(UserError, match="needs a run"):
        eval_points.Recorder(tmp_path)
    sets = eval_points.parse_sets(
        ["arithmetic,held_out_prompts=3,train_prompts=5,arithmetic"], thinking="auto", unsafe_no_sandbox=False
    )
    assert [len(s.examples) for s in sets] == [3, 320]
