"""Evaluation statistics as pure functions: mean@k, unbiased pass@k, and standard errors that respect prompts.

Everything is computed from per-prompt counts (passed, sampled): completions of one prompt are not
independent draws of the benchmark, so the prompt is the unit. Two standard errors answer two questions:

- `sampling_stderr`: these prompts are the benchmark; how far would the number move with other samples of
  them?
  (the noise of a point on a run's curve, whose held-out set is fixed);
- `prompt_stderr`: how far would it move with other prompts of the same kind as well? (comparing models on a
  sample
  of problems). It is the larger one: by the law of total variance it holds the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PromptCounts:
    """Per-prompt outcomes of one evaluation: P prompts, `passed[p]` of `sampled[p]` completions passed.

    A prompt whose every verification failed has `sampled` 0 and leaves the mean (design.md, section 3).
    """

    prompt_ids: tuple[str, ...]
    passed: IntArray
    sampled: IntArray

    def __post_init__(self) -> None:
        if not len(self.prompt_ids) == len(self.passed) == len(self.sampled):
            raise ValueError("prompt_ids, passed and sampled must have one entry a prompt")
        if np.any(self.passed < 0) or np.any(self.passed > self.sampled):
            raise ValueError("passed must lie in 0..sampled")

    @property
    def counted(self) -> PromptCounts:
        """Only the prompts with at least one judged sample."""
        keep = self.sampled > 0
        ids = tuple(name for name, kept in zip(self.prompt_ids, keep, strict=True) if kept)
        return PromptCounts(ids, self.passed[keep], self.sampled[keep])


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Unbiased pass@k over the prompts with at least k judged samples."""

    k: int
    value: float
    prompt_stderr: float
    prompts: int


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """One evaluation of one set. `pass_rate` is mean@k: every prompt weighs the same, whatever its sample
    count.
    """

    pass_rate: float
    sampling_stderr: float | None
    prompt_stderr: float | None
    prompts: int
    samples: int
    pass_at_k: tuple[PassAtK, ...]


def count_outcomes(outcomes: Iterable[tuple[str, bool | None]]) -> PromptCounts:
    """Count (prompt id, passed) pairs by prompt, in order of first appearance; None (a failed verifier)
    isn't a sample.

    A prompt with nothing but failed verifications stays, with 0 of 0.
    """
    passed: dict[str, int] = {}
    sampled: dict[str, int] = {}
    for prompt_id, outcome in outcomes:
        passed[prompt_id] = passed.get(prompt_id, 0) + int(bool(outcome))
        sampled[prompt_id] = sampled.get(prompt_id, 0) + int(outcome is not None)
    ids = tuple(passed)
    return PromptCounts(
        ids,
        np.array([passed[i] for i in ids], dtype=np.int64),
        np.array([sampled[i] for i in ids], dtype=np.int64),
    )


def mean_at_k(counts: PromptCounts) -> float:
    """Mean over prompts of the share of passed samples (NaN without prompts)."""
    judged = counts.counted
    if not len(judged.passed):
        return math.nan
    return float(np.mean(judged.passed / judged.sampled))


def sampling_stderr(counts: PromptCounts) -> float | None:
    """Standard error of mean@k given these prompts: sqrt(sum_p p_hat (1 - p_hat) / (n_p - 1)) / P.

    x (1 - x/n) / (n - 1) / n is the unbiased estimate of a binomial share's variance. None when every
    prompt has one sample only: the within-prompt part can't be told then.
    """
    judged = counts.counted
    several = judged.sampled > 1
    if not len(judged.passed) or not np.any(several):
        return None
    share = judged.passed[several] / judged.sampled[several]
    variance = share * (1.0 - share) / (judged.sampled[several] - 1)
    # Prompts with a single sample take the mean variance of the others rather than none at all.
    single = np.sum(~several) * np.mean(
        share * (1 - share) * judged.sampled[several] / (judged.sampled[several] - 1)
    )
    return float(np.sqrt(np.sum(variance) + single) / len(judged.passed))


def prompt_stderr(counts: PromptCounts) -> float | None:
    """Standard error of mean@k over prompts and samples: sd of the prompts' shares / sqrt(P); None below 2
    prompts.
    """
    judged = counts.counted
    if len(judged.passed) < 2:
        return None
    return float(np.std(judged.passed / judged.sampled, ddof=1) / math.sqrt(len(judged.passed)))


def pass_at_k_of_prompt(passed: int, sampled: int, k: int) -> float:
    """Unbiased pass@k of one prompt: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, Eq. 1), as a stable
    product.

    Raises ValueError when k exceeds the samples: no unbiased estimate exists then.
    """
    if not 1 <= k <= sampled:
        raise ValueError(f"pass@{k} needs at least {k} samples of a prompt, not {sampled}")
    if sampled - passed < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(sampled - passed + 1, sampled + 1)))


def pass_at_k(counts: PromptCounts, k: int) -> PassAtK | None:
    """Unbiased pass@k with its standard error over prompts; None when no prompt has k samples."""
    values = [
        pass_at_k_of_prompt(int(c), int(n), k)
        for c, n in zip(counts.passed, counts.sampled, strict=True)
        if n >= k
    ]
    if not values:
        return None
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return PassAtK(k, float(np.mean(values)), error, len(values))


def powers_of_two(samples: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to and with `samples`: the usual k of pass@k."""
    ks = [1]
    while ks[-1] * 2 <= samples:
        ks.append(ks[-1] * 2)
    return tuple(ks) if ks[-1] == samples else (*ks, samples)


def summarise(counts: PromptCounts, ks: Sequence[int] = ()) -> EvaluationSummary:
    """Everything a table shows of one evaluation; pass@k for each k that some prompt has samples for."""
    judged = counts.counted
    return EvaluationSummary(
        pass_rate=mean_at_k(counts),
        sampling_stderr=sampling_stderr(counts),
        prompt_stderr=prompt_stderr(counts),
        prompts=len(judged.passed),
        samples=int(np.sum(judged.sampled)),
        pass_at_k=tuple(found for k in ks if (found := pass_at_k(counts, k)) is not None),
    )


def split_by_domain(counts: PromptCounts, domain_of: Mapping[str, str]) -> dict[str, PromptCounts]:
    """Cut one evaluation of a mixture into its domains (`domain_of`: prompt id -> domain), in order of
    appearance.
    """
    domains = np.array([domain_of[prompt_id] for prompt_id in counts.prompt_ids], dtype=object)
    return {
        domain: PromptCounts(
            tuple(i for i, d in zip(counts.prompt_ids, domains, strict=True) if d == domain),
            counts.passed[domains == domain],
            counts.sampled[domains == domain],
        )
        for domain in dict.fromkeys(domains)
    }
