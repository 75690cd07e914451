"""Evaluate one policy on one set: ask every prompt several times, judge, count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalerl.errors import UserError
from scalerl.task.build import EvaluationSet
from scalerl.task.evaluation import (
    EvaluationSummary,
    PromptCounts,
    count_outcomes,
    powers_of_two,
    split_by_domain,
    summarise,
)
from scalerl.task.protocol import Example, Judgement, Prompter, Verifier

_ATTEMPTS = 2  # a failed verifier is tried once more, then reduces the samples (design.md, section 3)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One completion: its tokens (prompt not in it) and whether it ended by itself."""

    tokens: tuple[int, ...]
    finished: bool


Sampler = Callable[[Sequence[tuple[int, ...]], int], list[list[Sampled]]]
"""From P prompts' tokens and the number of samples to the samples of each prompt."""


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """A completion's text and what became of it; `passed` is None where the verifier failed."""

    prompt: str
    text: str
    finished: bool
    passed: bool | None


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """One set's evaluation: per-prompt counts, summaries (all, and by domain), and the samples themselves."""

    name: str
    counts: PromptCounts
    summary: EvaluationSummary
    domains: dict[str, EvaluationSummary]
    truncated: int
    verifier_failed: int
    mean_length_tokens: float
    samples: tuple[JudgedSample, ...]


def evaluate(
    evaluation_set: EvaluationSet,
    prompter: Prompter,
    sampler: Sampler,
    samples_per_prompt: int,
    *,
    most_prompts: int | None = None,
) -> EvaluationResult:
    """Ask each of the set's prompts (the first `most_prompts`) `samples_per_prompt` times.

    A truncated completion is wrong. Raises UserError where no completion could be judged.
    """
    examples = evaluation_set.examples[:most_prompts]
    if not examples:
        raise UserError(f"{evaluation_set.name}: no prompts to evaluate on")
    answers = sampler([prompter.encode(example) for example in examples], samples_per_prompt)
    asked = [
        (example, sample) for example, samples in zip(examples, answers, strict=True) for sample in samples
    ]
    texts = [prompter.decode(sample.tokens) for _, sample in asked]
    judged = judge_patiently(evaluation_set.verifier, [example for example, _ in asked], texts)
    passed = [
        False if not sample.finished else None if word is None else word.passed
        for (_, sample), word in zip(asked, judged, strict=True)
    ]
    counts = count_outcomes((example.id, word) for (example, _), word in zip(asked, passed, strict=True))
    if not counts.counted.prompt_ids:
        raise UserError(
            f"{evaluation_set.name}: the verifier failed on every completion; see the task's docs"
        )
    ks = powers_of_two(samples_per_prompt)
    domains = split_by_domain(counts, {example.id: example.domain for example in examples})
    return EvaluationResult(
        name=evaluation_set.name,
        counts=counts,
        summary=summarise(counts, ks),
        domains={name: summarise(part, ks) for name, part in domains.items()} if len(domains) > 1 else {},
        truncated=sum(not sample.finished for _, sample in asked),
        verifier_failed=sum(word is None for word in passed),
        mean_length_tokens=sum(len(sample.tokens) for _, sample in asked) / len(asked),
        samples=tuple(
            JudgedSample(example.prompt, text, sample.finished, word)
            for (example, sample), text, word in zip(asked, texts, passed, strict=True)
        ),
    )


def judge_patiently(
    verifier: Verifier, examples: Sequence[Example], texts: Sequence[str]
) -> list[Judgement | None]:
    """Judge all; what the verifier failed on is asked once more."""
    judged = list(verifier(examples, texts))
    for _ in range(_ATTEMPTS - 1):
        failed = [index for index, word in enumerate(judged) if word is None]
        if failed:
            again = verifier([examples[i] for i in failed], [texts[i] for i in failed])
            for index, word in zip(failed, again, strict=True):
                judged[index] = word
    return judged
