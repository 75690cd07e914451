"""Loss types. One signature: (logp, behaviour_logp, advantage, completion, lengths) -> loss a token, to be
minimised.

`logp` [T] is the trainer's, differentiable; `behaviour_logp` [T] the generator's when it sampled;
`advantage` [T] that of the token's completion; `completion` [T] its index into `lengths` [n] (sampled
tokens). A completion's tokens must all be there. rho = exp(logp - behaviour_logp). Each loss has a twin
that says where its bound bites.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cispo(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_max: float,
) -> Tensor:
    """CISPO: -sg(min(rho, eps_max)) A logp. The bound is absolute; there is no lower one."""
    weight = (logp.detach() - behaviour_logp).exp().clamp_max(eps_max)
    return -weight * advantage * logp


def clip(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> Tensor:
    """GRPO / DAPO: -min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A)."""
    return _clipped_surrogate((logp - behaviour_logp).exp(), advantage, eps_low, eps_high)


def gspo(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> Tensor:
    """GSPO: as clip, with s = (pi_train(y) / pi_gen(y))^(1/|y|) in every token of y, gradient included."""
    return _clipped_surrogate(
        sequence_ratio(logp, behaviour_logp, completion, lengths), advantage, eps_low, eps_high
    )


def sequence_ratio(logp: Tensor, behaviour_logp: Tensor, completion: Tensor, lengths: Tensor) -> Tensor:
    """Return GSPO's length-normalised ratio of each token's completion [T]."""
    log_ratio = logp.new_zeros(lengths.shape[0]).index_add(0, completion, logp - behaviour_logp)
    return (log_ratio / lengths.to(logp.dtype).clamp_min(1)).exp()[completion]


def _clipped_surrogate(ratio: Tensor, advantage: Tensor, eps_low: float, eps_high: float) -> Tensor:
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - eps_low, 1 + eps_high) * advantage)


def cispo_bound(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_max: float,
) -> tuple[Tensor, Tensor]:
    """Return which tokens [T] are held at a lower (never) and at the upper bound."""
    above = (logp - behaviour_logp).exp() > eps_max
    return torch.zeros_like(above), above


def clip_bound(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """Return which tokens [T] lost their gradient to the lower (A < 0) and to the upper bound (A > 0)."""
    return _where_bound((logp - behaviour_logp).exp(), advantage, eps_low, eps_high)


def gspo_bound(
    logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    completion: Tensor,
    lengths: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """Return which tokens [T] lost their gradient to a bound of their sequence's ratio: lower, upper."""
    return _where_bound(
        sequence_ratio(logp, behaviour_logp, completion, lengths), advantage, eps_low, eps_high
    )


def _where_bound(ratio: Tensor, advantage: Tensor, eps_low: float, eps_high: float) -> tuple[Tensor, Tensor]:
    return (ratio < 1 - eps_low) & (advantage < 0), (ratio > 1 + eps_high) & (advantage > 0)
