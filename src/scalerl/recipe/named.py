"""The named recipes, each as data (A.16 and Section 2; our reading where the source is silent)."""

from __future__ import annotations

from difflib import get_close_matches

from scalerl.errors import UserError
from scalerl.recipe.axes import (
    Cispo,
    Clip,
    GroupAdvantage,
    Gspo,
    Interruption,
    NoPositiveResampling,
    Pipeline,
    PpoOffPolicy,
    Uniform,
)
from scalerl.recipe.recipe import Recipe

_BASE = Recipe(
    schedule=PpoOffPolicy(k=8),
    loss=Clip(eps_low=0.2, eps_high=0.26),
    aggregation="sample",
    advantage=GroupAdvantage(normalisation="prompt"),
    head="model",
    batch="all",
    curriculum=Uniform(),
    length_control=Interruption(),
)

_RECIPES: dict[str, tuple[Recipe, str]] = {
    "base": (_BASE, "the source's starting point (Section 2)"),
    "scalerl": (
        _BASE.replace(
            schedule=Pipeline(k=8),
            loss=Cispo(eps_max=5),
            aggregation="prompt",
            advantage=GroupAdvantage(normalisation="batch"),
            head="fp32",
            batch="zero_variance_dropped",
            curriculum=NoPositiveResampling(threshold=0.9),
        ),
        "the recipe that scales (Section 4)",
    ),
    "deepseek_grpo": (_BASE.replace(loss=Clip(eps_low=0.2, eps_high=0.2)), "GRPO as in the source's Fig. 2"),
    "qwen25_dapo": (
        _BASE.replace(aggregation="prompt", batch="zero_variance_dropped").scaled_to(prompts_per_step=80),
        "DAPO as in the source's Fig. 2",
    ),
    "magistral": (
        _BASE.replace(schedule=Pipeline(k=8), aggregation="prompt", batch="zero_variance_dropped"),
        "Magistral as in the source's Fig. 2",
    ),
    "minimax_m1": (
        _BASE.replace(
            loss=Cispo(eps_max=5), aggregation="prompt", head="fp32", batch="zero_variance_dropped"
        ).scaled_to(prompts_per_step=80),
        "MiniMax-M1 as in the source's Fig. 2",
    ),
    "gspo": (_BASE.replace(loss=Gspo(eps_low=3e-3, eps_high=5e-3)), "base with GSPO's loss (Fig. 5a)"),
    "dr_grpo": (
        _BASE.replace(
            loss=Clip(eps_low=0.2, eps_high=0.2),
            aggregation="constant",
            advantage=GroupAdvantage(normalisation="none"),
        ),
        "base with Dr. GRPO's constant divisor and no normalisation",
    ),
}

NAMES: tuple[str, ...] = tuple(_RECIPES)
"""Names of the recipes, in the table's order."""


def named(name: str) -> Recipe:
    """Return a named recipe. Raises UserError, with the nearest name, for an unknown one."""
    if name not in _RECIPES:
        near = get_close_matches(name.lower().replace("-", "_"), NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(NAMES)}"
        raise UserError(f"no recipe is named {name!r}: {hint}")
    return _RECIPES[name][0]


def describe(name: str) -> str:
    """Return one line that says where a named recipe comes from."""
    named(name)
    return _RECIPES[name][1]
