"""Several tasks as one: training prompts in given proportions, every domain with its own verifier."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scalerl.errors import UserError
from scalerl.record.prompts import file_word
from scalerl.record.schema import HELD_OUT
from scalerl.task.protocol import Example, Judgement, Task, Verifier


@dataclass(frozen=True, slots=True)
class MixedPart:
    """One task of a mixture: `domain` names it in results, `weight` is its share of the training prompts."""

    domain: str
    task: Task
    weight: float


class DomainVerifier:
    """Hands each completion to the verifier of its example's domain."""

    def __init__(self, verifiers: Mapping[str, Verifier]) -> None:
        self.verifiers = dict(verifiers)

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Judge in one call a domain; results in order of the input."""
        judgements: list[Judgement | None] = [None] * len(examples)
        for domain, verifier in self.verifiers.items():
            indices = [i for i, example in enumerate(examples) if example.domain == domain]
            if indices:
                judged = verifier([examples[i] for i in indices], [completions[i] for i in indices])
                for index, judgement in zip(indices, judged, strict=True):
                    judgements[index] = judgement
        return judgements


def mix(parts: Sequence[MixedPart], *, name: str = "mixture", seed: int = 0) -> Task:
    """Mix tasks: in one epoch the parts' training prompts stand in proportion to their weights.

    As many prompts as possible are kept: the part that runs out first sets the scale, the others are
    sampled down to it (by hash, so the choice is stable). Held-out sets stay whole, and no prompt held out
    in one part is trained on in another. A prompt that two parts have counts for the first. Raises
    UserError where the domains can't be told apart in results.
    """
    _check_domains([part.domain for part in parts])
    held_out: dict[str, Example] = {}
    for part in parts:
        for example in part.task.held_out:
            held_out.setdefault(example.id, replace(example, domain=part.domain))
    taken = set(held_out)
    pools: list[list[Example]] = []
    for part in parts:
        fresh = [replace(e, domain=part.domain) for e in part.task.train if e.id not in taken]
        taken.update(example.id for example in fresh)
        pools.append(sorted(fresh, key=lambda e: hashlib.sha256(f"{seed} {e.id}".encode()).digest()))
    scale = min(len(pool) / part.weight for pool, part in zip(pools, parts, strict=True))
    chosen = [
        example
        for pool, part in zip(pools, parts, strict=True)
        for example in pool[: max(1, round(part.weight * scale))]
    ]
    verifier = DomainVerifier({part.domain: part.task.verifier for part in parts})
    return Task(name, tuple(chosen), tuple(held_out.values()), verifier)


def _check_domains(domains: Sequence[str]) -> None:
    """Every domain becomes an evaluation set beside the whole held-out set, with files of its own."""
    words = [file_word(domain) for domain in domains]
    if len(set(words)) != len(words):
        raise UserError(f"task: parts: domains {list(domains)} must differ; give each part its own 'domain'")
    if HELD_OUT in words:
        raise UserError(f"task: parts: domain {HELD_OUT!r} is the whole held-out set's name; choose another")


def by_domain(examples: Sequence[Example]) -> dict[str, tuple[Example, ...]]:
    """Examples of each domain, in order of appearance: what is evaluated apart."""
    found: dict[str, list[Example]] = {}
    for example in examples:
        found.setdefault(example.domain, []).append(example)
    return {domain: tuple(members) for domain, members in found.items()}
