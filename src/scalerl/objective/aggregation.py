"""Aggregation as one weight a completion, from the whole batch's denominators; micro-batches only sum."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def token_weights(
    aggregation: Literal["sample", "prompt", "token", "constant"],
    lengths: Tensor,
    prompt: Tensor,
    *,
    max_tokens: int,
) -> Tensor:
    """Return w [N], float64, such that the loss is sum_i w_i sum_t loss_{i,t}.

    `lengths` [N] counts sampled tokens, `prompt` [N] holds indices in 0..P-1; both of the whole batch's kept
    completions. sample: 1 / (N |y_i|). prompt: 1 / (P x the prompt's tokens). token: 1 / all tokens.
    constant: 1 / (N max_tokens), `max_tokens` being the most a completion may have.
    """
    lengths = lengths.to(torch.float64)
    N = lengths.shape[0]
    if N == 0:
        return lengths
    if aggregation == "sample":
        return 1.0 / (N * lengths.clamp_min(1))
    if aggregation == "prompt":
        P = int(prompt.max()) + 1
        prompt_tokens = lengths.new_zeros(P).index_add_(0, prompt, lengths)
        return 1.0 / (P * prompt_tokens.clamp_min(1))[prompt]
    if aggregation == "token":
        return (1.0 / lengths.sum().clamp_min(1)).expand(N)
    return torch.full((N,), 1.0 / (N * max_tokens), dtype=torch.float64)
