"""Options of a recipe -> functions with their parameters bound, ours and the user's under one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, assert_never, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from scalerl.errors import UserError
from scalerl.generate.protocol import Completion
from scalerl.objective.advantage import group_advantages
from scalerl.objective.losses import cispo, cispo_bound, clip, clip_bound, gspo, gspo_bound
from scalerl.objective.tokens import TokenLoss
from scalerl.recipe import axes
from scalerl.recipe.custom import load_function

AdvantageFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(reward [N], prompt [N], kept [N]) -> advantage [N]."""


class BoundFunction(Protocol):
    """A loss's twin: which tokens [T] its lower and its upper bound hold."""

    def __call__(
        self, logp: Tensor, behaviour_logp: Tensor, advantage: Tensor, completion: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return two masks [T]."""
        ...


class RewardFunction(Protocol):
    """Rewards of one prompt's survivors."""

    def __call__(
        self, passed: list[bool], completions: Sequence[Completion], reward: Sequence[float | None]
    ) -> npt.NDArray[np.float64]:
        """Return one reward a completion."""
        ...


def loss_function(option: axes.Cispo | axes.Clip | axes.Gspo | axes.CustomLoss) -> TokenLoss:
    """Return the loss with its parameters bound."""
    match option:
        case axes.Cispo():
            return partial(cispo, eps_max=option.eps_max)
        case axes.Clip():
            return partial(clip, eps_low=option.eps_low, eps_high=option.eps_high)
        case axes.Gspo():
            return partial(gspo, eps_low=option.eps_low, eps_high=option.eps_high)
        case axes.CustomLoss():
            return _checked_loss(option)
        case _:
            assert_never(option)


def bound_function(option: axes.Cispo | axes.Clip | axes.Gspo | axes.CustomLoss) -> BoundFunction | None:
    """Return what tells which tokens are held at a bound; None for a loss of the user's."""
    match option:
        case axes.Cispo():
            return partial(cispo_bound, eps_max=option.eps_max)
        case axes.Clip():
            return partial(clip_bound, eps_low=option.eps_low, eps_high=option.eps_high)
        case axes.Gspo():
            return partial(gspo_bound, eps_low=option.eps_low, eps_high=option.eps_high)
        case axes.CustomLoss():
            return None
        case _:
            assert_never(option)


def advantage_function(option: axes.GroupAdvantage | axes.CustomAdvantage) -> AdvantageFunction:
    """Return the advantage with its parameters bound."""
    if isinstance(option, axes.GroupAdvantage):
        return partial(group_advantages, normalisation=option.normalisation, over=option.over, eps=option.eps)
    function = load_function(option)

    def advantage(reward: Tensor, prompt: Tensor, kept: Tensor) -> Tensor:
        result = function(reward, prompt, kept)
        _check_shape(option, result, reward.shape, "completion")
        return cast(Tensor, result).to(reward.dtype)

    return advantage


def reward_function(option: axes.VerifierReward | axes.CustomReward) -> RewardFunction:
    """Return the reward: the verifier's own, or the user's from (passed, completions)."""
    if isinstance(option, axes.VerifierReward):
        return _verifier_reward
    function = load_function(option)

    def reward(
        passed: list[bool], completions: Sequence[Completion], reward: Sequence[float | None]
    ) -> npt.NDArray[np.float64]:
        result = np.asarray(function(passed, completions), dtype=np.float64)
        _check_shape(option, torch.from_numpy(result), torch.Size([len(completions)]), "completion")
        return result

    return reward


def _verifier_reward(
    passed: list[bool], completions: Sequence[Completion], reward: Sequence[float | None]
) -> npt.NDArray[np.float64]:
    if None in reward:
        raise ValueError("a completion was judged (passed) but has no reward")
    return np.array(reward, dtype=np.float64)


def _checked_loss(option: axes.CustomLoss) -> TokenLoss:
    function = load_function(option)

    def loss(
        logp: Tensor, behaviour_logp: Tensor, advantage: Tensor, completion: Tensor, lengths: Tensor
    ) -> Tensor:
        result = function(logp, behaviour_logp, advantage, completion, lengths)
        _check_shape(option, result, logp.shape, "token")
        return cast(Tensor, result)

    return loss


def _check_shape(option: axes.UserFunction, result: Any, shape: torch.Size, unit: str) -> None:
    if not isinstance(result, Tensor) or result.shape != shape:
        got = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise UserError(
            f"{option.path}: returned {got}; one value a {unit} is wanted, a tensor of {tuple(shape)}"
        )
