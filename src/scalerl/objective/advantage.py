"""Advantages: centred on the prompt, over the prompt's standard deviation, the batch's, or nothing."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def group_advantages(
    reward: Tensor,
    prompt: Tensor,
    kept: Tensor,
    *,
    normalisation: Literal["prompt", "batch", "none"],
    over: Literal["kept", "all"] = "kept",
    eps: float = 1e-6,
) -> Tensor:
    """Return A [N] from rewards [N], prompt indices [N] in 0..P-1 and whether each completion's prompt is
    kept [N].

    A_i = r_i - mean of the prompt's r. `prompt`: over (std of the prompt's r + eps). `batch`: over (std of
    all A_i + eps), of the kept completions or of all of them (`over`). Standard deviations are the
    population's. Where the divisor is 0 (eps = 0), A is 0.
    """
    if reward.numel() == 0:
        return reward.clone()
    P = int(prompt.max()) + 1
    centred = reward - _prompt_means(reward, prompt, P)[prompt]
    if normalisation == "none":
        return centred
    if normalisation == "prompt":
        std = _prompt_means(centred.square(), prompt, P).sqrt()[prompt]
    else:
        counted = centred if over == "all" else centred[kept]
        std = counted.std(correction=0) if counted.numel() else centred.new_zeros(())
    divisor = (std + eps).expand_as(centred)
    return torch.where(divisor > 0, centred / divisor.clamp_min(torch.finfo(centred.dtype).tiny), 0.0)


def _prompt_means(values: Tensor, prompt: Tensor, P: int) -> Tensor:
    """Return the mean of `values` [N] for each prompt [P]."""
    counts = torch.bincount(prompt, minlength=P).to(values.dtype)
    return values.new_zeros(P).index_add_(0, prompt, values) / counts.clamp_min(1)
