"""Axes that change nothing in a given setting: `scalerl train` says so before it begins."""

from __future__ import annotations

from scalerl.recipe.axes import NoPositiveResampling, PpoOffPolicy
from scalerl.recipe.recipe import Recipe


def no_op_axes(recipe: Recipe, *, model_dtype: str, training_prompts: int, steps: int) -> dict[str, str]:
    """Return axis -> why its option has no effect here; empty when every axis counts.

    `model_dtype` is that of policy and generator ('float32', 'bfloat16', ...), `steps` the trainer steps
    planned.
    """
    found = {}
    if recipe.head == "fp32" and model_dtype in ("float32", "float64"):
        found["head"] = f"head fp32 changes nothing: the model's weights are {model_dtype} already"
    drawn = steps * recipe.sizes.prompts_per_step
    if isinstance(recipe.curriculum, NoPositiveResampling) and drawn <= training_prompts:
        found["curriculum"] = (
            f"curriculum no_positive_resampling changes nothing: {steps} steps x "
            f"{recipe.sizes.prompts_per_step} prompts don't go beyond the first epoch of {training_prompts}"
        )
    if isinstance(recipe.schedule, PpoOffPolicy) and recipe.schedule.k == 1:
        found["loss"] = (
            "the loss's bound changes nothing: ppo_off_policy with k = 1 is on-policy, every ratio is about 1"
        )
    return found
