"""Decontamination: which training prompts share long word sequences with a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalerl.task.protocol import Example
from scalerl.task.split import normalise_prompt

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Overlap:
    """One training prompt that overlaps with a benchmark: `share` of the benchmark prompt's n-grams are in
    it."""

    train_id: str
    benchmark_id: str
    share: float


@dataclass(frozen=True, slots=True)
class ContaminationReport:
    """Overlaps of one training set with each benchmark; `n` is the length in words of the sequences
    compared."""

    n: int
    train_prompts: int
    overlaps: Mapping[str, tuple[Overlap, ...]]

    @property
    def train_ids(self) -> frozenset[str]:
        """Training prompts that overlap with any benchmark."""
        return frozenset(overlap.train_id for found in self.overlaps.values() for overlap in found)

    def lines(self) -> list[str]:
        """One line a benchmark, for people."""
        return [
            f"{name}: {len({o.train_id for o in found})} of {self.train_prompts} training prompts share a "
            f"{self.n}-word sequence with {len({o.benchmark_id for o in found})} of its prompts"
            for name, found in self.overlaps.items()
        ]


def ngrams(text: str, n: int) -> Iterator[tuple[str, ...]]:
    """The n-word sequences of a text; the whole text where it is shorter."""
    words = _WORD.findall(normalise_prompt(text))
    if 0 < len(words) < n:
        yield tuple(words)
    for start in range(len(words) - n + 1):
        yield tuple(words[start : start + n])


def find_contamination(
    train: Sequence[Example], benchmarks: Mapping[str, Sequence[Example]], *, n: int = 13
) -> ContaminationReport:
    """Compare every training prompt with every benchmark's; a shared sequence of n words is an overlap.

    Thirteen words is the usual choice: long enough that common phrases don't match. A benchmark prompt
    shorter than
    that matches only a training prompt that is equal, word for word.
    """
    overlaps: dict[str, tuple[Overlap, ...]] = {}
    for name, examples in benchmarks.items():
        owners: dict[tuple[str, ...], set[str]] = {}
        sizes: dict[str, int] = {}
        for example in examples:
            grams = set(ngrams(example.prompt, n))
            sizes[example.id] = len(grams)
            for gram in grams:
                owners.setdefault(gram, set()).add(example.id)
        overlaps[name] = tuple(_overlaps_of(train, owners, sizes, n))
    return ContaminationReport(n, len(train), overlaps)


def _overlaps_of(
    train: Sequence[Example], owners: Mapping[tuple[str, ...], set[str]], sizes: Mapping[str, int], n: int
) -> Iterator[Overlap]:
    for example in train:
        hits: dict[str, int] = {}
        for gram in set(ngrams(example.prompt, n)):
            for owner in owners.get(gram, ()):
                hits[owner] = hits.get(owner, 0) + 1
        for owner, count in sorted(hits.items()):
            yield Overlap(example.id, owner, count / sizes[owner])
