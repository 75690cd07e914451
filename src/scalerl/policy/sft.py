"""Supervised fine-tuning on demonstrations: the warm start before RL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from scalerl.policy.forward import completion_logprobs
from scalerl.policy.load import Policy


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prompt, tokens after it that carry no loss (an interruption, say), and the completion to imitate."""

    prompt: tuple[int, ...]
    injected: tuple[int, ...]
    completion: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SftSettings:
    """How long and how hard to train; the rate warms up linearly and decays as a cosine to a tenth."""

    steps: int = 1000
    demonstrations_per_step: int = 128
    demonstrations_per_micro_batch: int = 32
    learning_rate: float = 3e-3
    warmup_steps: int = 50
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0


def learning_rate_at(settings: SftSettings, step: int) -> float:
    """Return the learning rate of `step` (0-based)."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    decay = 0.55 + 0.45 * math.cos(math.pi * step / settings.steps)
    return settings.learning_rate * warm * decay


def sft(
    policy: Policy,
    demonstrations: Iterator[Demonstration],
    settings: SftSettings,
    on_step: Callable[[int, float, int], None] = lambda step, loss, tokens: None,
) -> None:
    """Train `policy` in place; `on_step(step, loss, tokens)` gets the mean loss a token in nats.

    Ends early when the demonstrations do.
    """
    parameters = list(policy.parameters().values())
    optimizer = torch.optim.AdamW(
        parameters, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=settings.weight_decay
    )
    for step in range(settings.steps):
        batch = list(islice(demonstrations, settings.demonstrations_per_step))
        if not batch:
            return
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(settings, step)
        optimizer.zero_grad(set_to_none=True)
        loss, tokens = _accumulate(policy, batch, settings.demonstrations_per_micro_batch)
        torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
        on_step(step, loss, tokens)


def _accumulate(policy: Policy, batch: Sequence[Demonstration], micro_batch: int) -> tuple[float, int]:
    """Back-propagate the batch's mean loss a token; return it and the number of tokens."""
    tokens = sum(len(d.completion) for d in batch)
    by_length = sorted(batch, key=lambda d: (len(d.prompt), len(d.injected) + len(d.completion)))
    total = 0.0
    for start in range(0, len(batch), micro_batch):
        part = by_length[start : start + micro_batch]
        groups = [(d.prompt, [np.array(d.injected + d.completion, dtype=np.int64)]) for d in part]
        logprobs, _ = completion_logprobs(policy, groups, fp32_head=True, with_entropy=False)
        loss = -(logprobs * _carries_loss(part, logprobs)).sum() / tokens
        loss.backward()
        total += float(loss.detach())
    return total, tokens


def _carries_loss(part: Sequence[Demonstration], like: Tensor) -> Tensor:
    """[T] 1.0 for completion tokens, 0.0 for injected ones."""
    mask = [x for d in part for x in (0.0,) * len(d.injected) + (1.0,) * len(d.completion)]
    return torch.tensor(mask, dtype=like.dtype, device=like.device)
