"""Log-probabilities and entropies of given tokens, in chunks of tokens: never the full [T, V] logits.

Forward keeps hidden states, weight, targets and one log-sum-exp a token. Backward computes each chunk's
logits again: four head products in place of three (time 4/3), for a working set of one chunk (memory c/T).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from scalerl.policy.head import exact_float32_matmul, head_dtype, head_logits

CHUNK_LOGITS = 1 << 24
"""Logits in one chunk when `chunk_tokens` isn't given: 64 MiB of float32."""


def token_logprobs(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    *,
    fp32_head: bool,
    chunk_tokens: int | None = None,
    with_entropy: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return log pi(targets[t]) [T] and the entropy [T], in nats, for hidden [T, D], head_weight [V, D].

    Both are float32 (float64 for float64 input), at temperature 1 over the whole vocabulary. The
    log-probabilities are differentiable, once, in `hidden` and `head_weight`; the entropy is a diagnostic
    and carries no gradient (zeros when `with_entropy` is False). `chunk_tokens` bounds the memory, not the
    result; by default a chunk holds `CHUNK_LOGITS` logits. `fp32_head` as in
    `scalerl.policy.head.head_logits`.
    """
    if hidden.ndim != 2 or head_weight.ndim != 2 or targets.shape != hidden.shape[:1]:
        raise ValueError(
            f"hidden [T, D], head_weight [V, D] and targets [T] expected, got {tuple(hidden.shape)}, "
            f"{tuple(head_weight.shape)} and {tuple(targets.shape)}"
        )
    if chunk_tokens is None:
        chunk_tokens = max(16, CHUNK_LOGITS // head_weight.shape[0])
    logprobs, entropy = _TokenLogprobs.apply(
        hidden, head_weight, targets, fp32_head, chunk_tokens, with_entropy
    )
    return logprobs, entropy


def _head_weight(hidden: Tensor, weight: Tensor, fp32_head: bool) -> Tensor:
    """Return the weight in the head's dtype: for this one call, so that a chunk doesn't convert it anew."""
    return weight.to(head_dtype(hidden, fp32_head))


def _chunk_log_softmax(hidden: Tensor, weight: Tensor, fp32_head: bool) -> tuple[Tensor, Tensor]:
    """Return log-probabilities [c, V] and log-sum-exps [c] of one chunk, in at least float32."""
    logits = head_logits(hidden.to(weight.dtype), weight, fp32_head)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_normaliser = logits.logsumexp(dim=-1)
    return logits.sub_(log_normaliser[:, None]), log_normaliser


class _TokenLogprobs(torch.autograd.Function):
    """Chunked log-softmax and gather, with the logits computed again in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        fp32_head: bool,
        chunk_tokens: int,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        T = hidden.shape[0]
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        logprobs, log_normaliser = hidden.new_empty(T, dtype=dtype), hidden.new_empty(T, dtype=dtype)
        entropy = hidden.new_zeros(T, dtype=dtype)
        head = _head_weight(hidden, weight, fp32_head)
        for start in range(0, T, chunk_tokens):
            part = slice(start, start + chunk_tokens)
            log_p, log_normaliser[part] = _chunk_log_softmax(hidden[part], head, fp32_head)
            logprobs[part] = log_p.gather(1, targets[part, None]).squeeze(1)
            if with_entropy:
                entropy[part] = log_p.exp().mul_(log_p).sum(dim=-1).neg_()
        ctx.save_for_backward(hidden, weight, targets, log_normaliser)
        ctx.fp32_head, ctx.chunk_tokens = fp32_head, chunk_tokens
        ctx.mark_non_differentiable(entropy)
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs: Tensor | None, _grad_entropy: Tensor | None) -> tuple[Any, ...]:
        if grad_logprobs is None:
            return None, None, None, None, None, None
        hidden, weight, targets, log_normaliser = ctx.saved_tensors
        head = _head_weight(hidden, weight, ctx.fp32_head)
        grad_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        # accumulated over chunks in at least float32: a bf16 sum of many chunks would lose the small ones
        sum_dtype = torch.promote_types(weight.dtype, torch.float32)
        grad_weight = torch.zeros_like(weight, dtype=sum_dtype) if ctx.needs_input_grad[1] else None
        with exact_float32_matmul(), torch.autocast(device_type=hidden.device.type, enabled=False):
            for start in range(0, hidden.shape[0], ctx.chunk_tokens):
                part = slice(start, start + ctx.chunk_tokens)
                logits = head_logits(hidden[part].to(head.dtype), head, ctx.fp32_head)
                # d log p_target / d logit_v = [v is target] - p_v
                grad = logits.to(log_normaliser.dtype).sub_(log_normaliser[part, None]).exp_()
                grad.mul_(grad_logprobs[part, None]).neg_()
                grad.scatter_add_(1, targets[part, None], grad_logprobs[part, None].to(grad.dtype))
                grad = grad.to(head.dtype)
                if grad_hidden is not None:
                    grad_hidden[part] = (grad @ head).to(hidden.dtype)
                if grad_weight is not None:
                    if grad.dtype == sum_dtype:
                        grad_weight.addmm_(grad.t(), hidden[part].to(sum_dtype))
                    else:
                        grad_weight += grad.t() @ hidden[part]
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None,
            None,
            None,
            None,
        )
