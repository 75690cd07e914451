"""Recipes in real training on the quickstart task: every arm changes the step data; every recipe learns."""

import orjson
import pytest

from scalerl.loop.config import EngineSettings, EvaluationPlan
from scalerl.loop.run import train_run
from scalerl.loop.setup import QUICKSTART_FOLDER
from scalerl.recipe import NAMES, load_recipe, named
from scalerl.study.quickstart import at_quickstart_sizes, quickstart_config

pytestmark = pytest.mark.skipif(
    not (QUICKSTART_FOLDER / "model.safetensors").is_file(), reason="the quickstart's model isn't there"
)
# steps.jsonl rows of a short bf16 run; epochs of 16 prompts, so that the second one begins at the third step
SMALL = {"prompts_per_step": 8, "generations_per_prompt": 6}
STEPS = 8
# short chains: some are solved every time, and No-Positive-Resampling retires them
EASY = {
    "kind": "arithmetic",
    "train_prompts": 16,
    "held_out_prompts": 4,
    "options": {"min_operations": 1, "max_operations": 2},
}


class Silent:
    def on_step(self, row):
        pass

    def on_evaluation(self, evaluation):
        pass

    def on_event(self, kind, message):
        pass


def lines(path):
    return [orjson.loads(line) for line in path.read_text().splitlines()]


def short_run(recipe, folder):
    config = quickstart_config(
        at_quickstart_sizes(recipe).scaled_to(**SMALL), name="arm", seed=1, steps=STEPS
    )
    config = config.model_copy(
        update={
            "task": EASY,
            "evaluation": EvaluationPlan(every_steps=STEPS, samples_per_prompt=1),
            "engine": EngineSettings(slots=96, micro_batch_tokens=4096),
            "dtype": "bfloat16",
        }
    )
    train_run(config, folder, Silent())
    return lines(folder / "steps.jsonl")


@pytest.fixture(scope="module")
def scalerl_rows(tmp_path_factory):
    return short_run(named("scalerl"), tmp_path_factory.mktemp("scalerl") / "run")


def test_the_same_recipe_twice_gives_the_same_step_data(scalerl_rows, tmp_path):
    assert len(scalerl_rows) == STEPS
    assert short_run(named("scalerl"), tmp_path / "run") == scalerl_rows


@pytest.mark.parametrize("axis", list(named("scalerl").leave_one_out()))
def test_each_leave_one_out_arm_changes_the_step_data(axis, scalerl_rows, tmp_path):
    rows = short_run(named("scalerl").leave_one_out()[axis], tmp_path / "run")
    assert len(rows) == STEPS
    changed = {
        key
        for mine, theirs in zip(rows, scalerl_rows, strict=True)
        for key in mine
        if mine[key] != theirs.get(key)
    }
    assert changed & {"loss", "grad_norm", "reward", "pass_rate"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_named_recipe_trains_30_steps_and_its_pass_rate_rises(name, tmp_path):
    config = quickstart_config(at_quickstart_sizes(load_recipe(name)), name=name, seed=1, steps=30)
    plan = config.evaluation.model_copy(update={"every_steps": 30})
    train_run(config.model_copy(update={"evaluation": plan}), tmp_path / name, Silent())
    evaluations = lines(tmp_path / name / "evals.jsonl")
    before = [row["pass_rate"] for row in evaluations if row["step"] == 0]
    (after,) = [row["pass_rate"] for row in evaluations if row["step"] == 30]
    start = sum(before) / len(before)
    print(f"{name}: {start:.3f} -> {after:.3f}")
    # 320 prompts asked once: the standard error of the difference is about 0.03
    assert after > start + 0.04
