"""The recipe: one field an axis. It carries no name: two recipes are the same when their fields are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import model_validator

from scalerl.recipe.axes import (
    Advantage,
    Clip,
    Curriculum,
    GroupAdvantage,
    Interruption,
    Kl,
    LengthControl,
    LengthPenalty,
    Loss,
    NoKl,
    Option,
    PpoOffPolicy,
    Reward,
    Schedule,
    Uniform,
    VerifierReward,
)
from scalerl.recipe.sizes import Optimizer, Sizes


@dataclass(frozen=True, slots=True)
class LengthBudgets:
    """A recipe's length limits in tokens; each completion's thinking budget is drawn from [min, max]
    uniformly.

    `phrase` is what closes overlong thinking, or None where nothing does (the bounds are then equal).
    """

    min_thinking_tokens: int
    max_thinking_tokens: int
    max_answer_tokens: int
    phrase: str | None


class Recipe(Option):
    """A point of the recipe space (method.md, section 2), with its sizes and optimizer."""

    schedule: Schedule
    """Off-policy algorithm: when completions are generated, and with which weights."""
    loss: Loss
    """Loss type: what a token contributes."""
    aggregation: Literal["sample", "prompt", "token", "constant"]
    """Loss aggregation: mean over completions of token means; over prompts of token means; over all tokens;
    or the sum of all tokens over completions x max tokens."""
    advantage: Advantage
    """Advantage normalisation."""
    head: Literal["model", "fp32"]
    """LM head precision on generator and trainer: the model's, or accumulated and returned in float32."""
    batch: Literal["all", "zero_variance_dropped", "dynamic_sampling"]
    """Batch definition: all prompts count; prompts whose outcomes are all equal are dropped; or they are
    dropped and the batch is refilled (DAPO)."""
    curriculum: Curriculum
    """Which prompt is sampled next."""
    length_control: LengthControl
    """How overlong thinking is held in check."""
    kl: Kl = NoKl()
    """KL term to a reference model."""
    reward: Reward = VerifierReward()
    """Where rewards come from."""
    sizes: Sizes = Sizes()
    """Prompts, generations, lengths."""
    optimizer: Optimizer = Optimizer()
    """AdamW's settings."""

    @model_validator(mode="before")
    @classmethod
    def _expand_short_forms(cls, data: Any) -> Any:
        return expand_short_forms(data)

    def replace(self, **fields: Any) -> Self:
        """Return a copy with these fields replaced, validated (`model_copy` doesn't validate)."""
        return type(self).model_validate({**dict(self), **fields})

    def scaled_to(self, **sizes: int) -> Self:
        """Return the same recipe at other sizes: `scaled_to(max_thinking_tokens=30, max_answer_tokens=4)`.

        Only `sizes` changes. Interruption budgets and length penalty follow, being shares of it, so a
        recipe and its leave-one-out arms still differ in the fields that they differed in.
        """
        return self.replace(sizes={**dict(self.sizes), **sizes})

    @property
    def max_completion_tokens(self) -> int:
        """Most sampled tokens of a completion: thinking and answer."""
        return self.sizes.max_thinking_tokens + self.sizes.max_answer_tokens

    @property
    def budgets(self) -> LengthBudgets:
        """The length limits in tokens, at these sizes."""
        most, answer = self.sizes.max_thinking_tokens, self.sizes.max_answer_tokens
        control = self.length_control
        if not isinstance(control, Interruption):
            return LengthBudgets(most, most, answer, None)
        low, high = control.min_thinking_share, control.max_thinking_share
        return LengthBudgets(max(1, round(low * most)), max(1, round(high * most)), answer, control.phrase)

    @property
    def penalty_tokens(self) -> tuple[int, int] | None:
        """L_max and L_cache of the length penalty (Eq. 9) in tokens at these sizes; None without one."""
        control = self.length_control
        if not isinstance(control, LengthPenalty):
            return None
        most = self.max_completion_tokens
        return max(1, round(control.max_share * most)), max(1, round(control.cache_share * most))

    def leave_one_out(self) -> dict[str, Self]:
        """Return arms that differ from this recipe in one axis each, keyed by the axis.

        Each axis goes back to base's option, length control to the length penalty (A.10: the one axis whose
        alternative isn't base's). An axis that already is there has no arm. ScaleRL has all eight.
        """
        arms = {axis: self.replace(**{axis: option}) for axis, option in ALTERNATIVES.items()}
        return {axis: arm for axis, arm in arms.items() if arm != self}

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved recipe as a plain dict, fit for JSON; `Recipe.model_validate` reads it back."""
        return self.model_dump(mode="json")


ALTERNATIVES: dict[str, Any] = {
    "schedule": PpoOffPolicy(k=8),
    "loss": Clip(eps_low=0.2, eps_high=0.26),
    "aggregation": "sample",
    "advantage": GroupAdvantage(normalisation="prompt"),
    "head": "model",
    "batch": "all",
    "curriculum": Uniform(),
    "length_control": LengthPenalty(),
}
"""Axis -> the option that its leave-one-out arm takes."""

OPTION_FIELDS = ("schedule", "loss", "advantage", "curriculum", "length_control", "kl", "reward")
"""Fields that hold one of several options, told apart by `kind`."""


def expand_short_forms(data: Any) -> Any:
    """Return recipe data with short forms written out.

    `loss: cispo` -> {kind: cispo}; `loss: mine.py:my_loss` -> {kind: custom, path: ...}; `advantage: batch`
    -> {kind: group, normalisation: batch}.
    """
    if not isinstance(data, dict):
        return data
    data = dict(data)
    for field in OPTION_FIELDS:
        value = data.get(field)
        if isinstance(value, str):
            if ".py:" in value:
                data[field] = {"kind": "custom", "path": value}
            elif field == "advantage" and value != "custom":
                data[field] = {"kind": "group", "normalisation": value}
            else:
                data[field] = {"kind": value}
        elif field == "advantage" and isinstance(value, dict) and "kind" not in value:
            data[field] = {"kind": "group", **value}
    return data
