"""Groups of completions with the verifier's word on each, and a step's numbers before any gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from scalerl.generate.protocol import Completion
from scalerl.objective.survivors import MIN_SURVIVORS, is_zero_variance, survivors


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """A prompt's G finished completions with the verifier's word on each.

    `passed[i]` and `reward[i]` are None where the verifier failed, and may be None where the completion is
    truncated (it leaves the batch whatever was said about it).
    """

    group: int
    prompt_id: str
    completions: Sequence[Completion]
    passed: Sequence[bool | None]
    reward: Sequence[float | None]

    @property
    def surviving(self) -> list[int]:
        """Indices of the completions that count."""
        truncated = [completion.finish == "truncated" for completion in self.completions]
        return np.flatnonzero(survivors(truncated, self.passed)).tolist()

    def outcomes(self) -> list[bool]:
        """Return the survivors' outcomes: what pass rate, history and zero variance go by."""
        return [bool(self.passed[i]) for i in self.surviving]


def batch_metrics(
    groups: Sequence[ScoredGroup], kept: Sequence[ScoredGroup], reward: Tensor
) -> dict[str, float]:
    """Return what the groups of a step say before any gradient: counts, shares, pass rate, reward, lengths.

    Truncated, interrupted and lengths are over all completions, the pass rate over the survivors, the reward
    (length penalty included) over the survivors of prompts with at least two.
    """
    completions = [completion for group in groups for completion in group.completions]
    outcomes = [group.outcomes() for group in groups]
    flat_outcomes = [passed for group in outcomes for passed in group]
    truncated = sum(completion.finish == "truncated" for completion in completions)
    failed = sum(
        passed is None and completion.finish != "truncated"
        for group in groups
        for completion, passed in zip(group.completions, group.passed, strict=True)
    )
    lengths = [int(completion.sampled.sum()) for completion in completions]
    zero_variance = sum(len(group) >= MIN_SURVIVORS and is_zero_variance(group) for group in outcomes)
    metrics: dict[str, float] = {
        "prompts": len(groups),
        "kept_prompts": len(kept),
        "zero_variance_prompts": zero_variance,
        "too_few_survivors_prompts": sum(len(group) < MIN_SURVIVORS for group in outcomes),
        "zero_variance_share": zero_variance / max(1, len(groups)),
        "completions": len(completions),
        "truncated": truncated,
        "truncated_share": truncated / max(1, len(completions)),
        "interrupted": sum(completion.interrupted for completion in completions),
        "verifier_failed": failed,
        "mean_length": float(np.mean(lengths)) if lengths else 0.0,
        "max_length": max(lengths, default=0),
    }
    if flat_outcomes:
        metrics["pass_rate"] = float(np.mean(flat_outcomes))
    if reward.numel():
        metrics["reward"] = float(reward.mean())
    return metrics
