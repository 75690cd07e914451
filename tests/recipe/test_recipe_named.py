"""The named recipes against method.md's table, written out again here by hand; leave-one-out; sizes."""

import pytest

from scalerl.errors import UserError
from scalerl.recipe import NAMES, Recipe, diff, named
from scalerl.recipe.named import describe

PPO, DROPPED, RETIRING = "ppo_off_policy", "zero_variance_dropped", "no_positive_resampling"
TABLE = {
    # name: schedule, loss, aggregation, normalisation, head, batch, curriculum, prompts
    "base": (PPO, ("clip", 0.2, 0.26), "sample", "prompt", "model", "all", "uniform", 48),
    "scalerl": ("pipeline", ("cispo", 5.0), "prompt", "batch", "fp32", DROPPED, RETIRING, 48),
    "deepseek_grpo": (PPO, ("clip", 0.2, 0.2), "sample", "prompt", "model", "all", "uniform", 48),
    "qwen25_dapo": (PPO, ("clip", 0.2, 0.26), "prompt", "prompt", "model", DROPPED, "uniform", 80),
    "magistral": ("pipeline", ("clip", 0.2, 0.26), "prompt", "prompt", "model", DROPPED, "uniform", 48),
    "minimax_m1": (PPO, ("cispo", 5.0), "prompt", "prompt", "fp32", DROPPED, "uniform", 80),
    "gspo": (PPO, ("gspo", 3e-3, 5e-3), "sample", "prompt", "model", "all", "uniform", 48),
    "dr_grpo": (PPO, ("clip", 0.2, 0.2), "constant", "none", "model", "all", "uniform", 48),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_named_recipe_is_the_tables_row(name):
    recipe = named(name)
    loss = tuple(recipe.loss.model_dump().values())
    row = (
        recipe.schedule.kind,
        loss,
        recipe.aggregation,
        recipe.advantage.normalisation,
        recipe.head,
        recipe.batch,
        recipe.curriculum.kind,
        recipe.sizes.prompts_per_step,
    )
    assert row == TABLE[name]
    assert recipe.schedule.k == 8
    assert recipe.length_control.kind == "interruption"
    assert recipe.kl.kind == "none"
    assert recipe.sizes.generations_per_prompt == 16
    assert describe(name)


def test_table_and_names_agree():
    assert set(TABLE) == set(NAMES)


def test_scalerl_settings_of_the_source():
    recipe = named("scalerl")
    assert recipe.curriculum.threshold == 0.9
    assert recipe.curriculum.history == "last_visit"
    assert (recipe.advantage.over, recipe.advantage.eps) == ("kept", 1e-6)
    assert recipe.sizes.model_dump() == {
        "prompts_per_step": 48,
        "generations_per_prompt": 16,
        "max_prompt_tokens": 2048,
        "max_thinking_tokens": 12288,
        "max_answer_tokens": 2048,
    }
    optimizer = recipe.optimizer
    assert (optimizer.learning_rate, optimizer.warmup_steps) == (5e-7, 100)
    assert (optimizer.weight_decay, optimizer.eps) == (0.01, 1e-15)
    budgets = recipe.budgets
    assert (budgets.min_thinking_tokens, budgets.max_thinking_tokens) == (10 * 1024, 12 * 1024)
    assert (
        budgets.phrase == "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"
    )


ARMS = {
    "schedule": "ppo_off_policy",
    "loss": "clip",
    "aggregation": "sample",
    "advantage": "prompt",
    "head": "model",
    "batch": "all",
    "curriculum": "uniform",
    "length_control": "length_penalty",
}


@pytest.mark.parametrize("scaled", [False, True])
def test_leave_one_out_arms_differ_in_exactly_one_field(scaled):
    recipe = named("scalerl")
    if scaled:
        recipe = recipe.scaled_to(prompts_per_step=8, max_thinking_tokens=30, max_answer_tokens=4)
    arms = recipe.leave_one_out()
    assert list(arms) == list(ARMS)
    for axis, arm in arms.items():
        differing = [field for field in Recipe.model_fields if getattr(arm, field) != getattr(recipe, field)]
        assert differing == [axis]
        assert {d.axis for d in diff(recipe, arm)} == {axis}
        option = getattr(arm, axis)
        chosen = option.normalisation if axis == "advantage" else getattr(option, "kind", option)
        assert chosen == ARMS[axis]
        assert arm.sizes == recipe.sizes
    base = named("base")
    assert all(getattr(arms[a], a) == getattr(base, a) for a in ARMS if a != "length_control")
    assert "schedule" not in base.leave_one_out()


def test_length_penalty_arm_has_14k_and_2k_and_scales():
    arm = named("scalerl").leave_one_out()["length_control"]
    assert arm.penalty_tokens == (14 * 1024, 2 * 1024)
    assert arm.budgets.phrase is None
    small = arm.scaled_to(max_thinking_tokens=30, max_answer_tokens=5)
    assert small.penalty_tokens == (35, 5)
    assert (small.budgets.min_thinking_tokens, small.budgets.max_thinking_tokens) == (30, 30)
    assert named("scalerl").penalty_tokens is None


def test_scaled_budgets_follow_sizes():
    budgets = named("scalerl").scaled_to(max_thinking_tokens=30, max_answer_tokens=4).budgets
    assert (budgets.min_thinking_tokens, budgets.max_thinking_tokens, budgets.max_answer_tokens) == (
        25,
        30,
        4,
    )


def test_unknown_name_suggests_the_near_one():
    with pytest.raises(UserError, match="did you mean 'scalerl'"):
        named("scale_rl")
    with pytest.raises(UserError, match="there are base, scalerl"):
        named("zzz")


def test_recipes_are_frozen_and_compare_by_content():
    recipe = named("scalerl")
    with pytest.raises(ValueError, match="frozen"):
        recipe.head = "model"
    rebuilt = named("base").replace(**{a: getattr(recipe, a) for a in ARMS})
    assert rebuilt == recipe
    assert hash(rebuilt) == hash(recipe)


def test_every_field_of_every_option_is_documented():
    from scalerl.recipe.mistakes import option_models

    models = [Recipe]
    for field in Recipe.model_fields.values():
        models += option_models(field.annotation).values()
    assert len(models) > 15
    undocumented = [
        (model.__name__, name)
        for model in models
        for name, field in model.model_fields.items()
        if name != "kind" and not field.description
    ]
    assert undocumented == []
