"""Axes without effect in a setting are named, and only those."""

from scalerl.recipe import apply_overrides, named
from scalerl.recipe.no_ops import no_op_axes

BIG = {"model_dtype": "bfloat16", "training_prompts": 1000, "steps": 100}


def test_scalerl_at_scale_has_no_idle_axis():
    assert no_op_axes(named("scalerl"), **BIG) == {}


def test_fp32_head_of_a_float32_model():
    found = no_op_axes(named("scalerl"), **{**BIG, "model_dtype": "float32"})
    assert list(found) == ["head"]
    assert "float32 already" in found["head"]
    assert no_op_axes(named("base"), **{**BIG, "model_dtype": "float32"}) == {}


def test_retirement_within_the_first_epoch():
    assert "curriculum" in no_op_axes(named("scalerl"), **{**BIG, "training_prompts": 4800})
    assert "curriculum" not in no_op_axes(named("scalerl"), **{**BIG, "training_prompts": 4799})


def test_on_policy_bounds():
    on_policy = apply_overrides(named("base"), ["schedule.k=1"])
    assert list(no_op_axes(on_policy, **BIG)) == ["loss"]
