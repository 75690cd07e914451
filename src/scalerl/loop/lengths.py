"""Completions without a model: lengths drawn from a stated distribution. Synthetic by name."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.loop.device import Member
from scalerl.loop.ledger import Ledger
from scalerl.loop.readings import ClockStep


@dataclass(frozen=True, slots=True)
class LogNormalLengths:
    """Log-normal completion lengths, cut off at `cap`; `mean` and `cv` are those before the cut.

    `cv` 0 makes every completion `mean` tokens long.
    """

    mean: float
    cv: float
    cap: int

    def draw(self, seed: int, group: int, completions: int) -> list[int]:
        """Lengths of one group's completions: a function of (seed, group), not of schedule or cluster."""
        sigma = math.sqrt(math.log1p(self.cv**2))
        normal = np.random.default_rng((seed, group)).standard_normal(completions)
        raw = self.mean * np.exp(sigma * normal - 0.5 * sigma**2)
        return [max(1, round(length)) for length in np.minimum(raw, self.cap).tolist()]

    @property
    def label(self) -> str:
        """What a table says about where its lengths come from."""
        return f"synthetic: log-normal, mean {self.mean:g}, CV {self.cv:g}, cap {self.cap}"


class SyntheticContent:
    """`content.Content` of completions that are only as long as they are: no model, no rewards."""

    def __init__(
        self,
        lengths: LogNormalLengths,
        *,
        generators: int,
        prompt_tokens: int,
        generations_per_prompt: int,
        seed: int,
    ) -> None:
        self._lengths, self._seed = lengths, seed
        self._prompt_tokens, self._generations = prompt_tokens, generations_per_prompt
        self.ledger = Ledger()
        self._admitted = 0
        self._waiting: dict[Member, int] = {}
        self._group_tokens: dict[int, int] = {}
        self._boundary = [0] * generators
        self._ends: list[list[tuple[int, Member]]] = [[] for _ in range(generators)]
        self.lengths_seen: list[int] = []
        """Length of every completion admitted so far."""

    def admit(self, version: int) -> tuple[int, int, int]:
        """Draw the next group's lengths."""
        group = self._admitted
        self._admitted += 1
        self.ledger.admit(group, version)
        lengths = self._lengths.draw(self._seed, group, self._generations)
        self.lengths_seen += lengths
        self._group_tokens[group] = sum(lengths) + self._generations * self._prompt_tokens
        for sample, length in enumerate(lengths):
            self._waiting[group, sample] = length
        return group, self._prompt_tokens, self._generations

    def start(self, device: int, members: Sequence[Member]) -> None:
        """Note at which of the device's boundaries each will end."""
        for member in members:
            end = self._boundary[device] + self._waiting.pop(member)
            heapq.heappush(self._ends[device], (end, member))

    def run(self, device: int) -> int:
        """Boundaries until the first end."""
        return self._ends[device][0][0] - self._boundary[device]

    def stop(self, device: int, boundaries: int) -> list[Member]:
        """Members whose end has come."""
        self._boundary[device] += boundaries
        ends, finished = self._ends[device], []
        while ends and ends[0][0] == self._boundary[device]:
            finished.append(heapq.heappop(ends)[1])
        return finished

    def publish(self, version: int) -> None:
        """There are no weights."""

    def take_weights(self, version: int) -> None:
        """There are no weights."""

    def judge(self, group: int) -> None:
        """Every group counts."""
        self.ledger.finish(group)

    def begin_step(self, batch: Sequence[int]) -> int:
        """All completions, each with its prompt."""
        self.ledger.begin_step(batch)
        return sum(self._group_tokens.pop(group) for group in batch)

    def end_step(self, reading: ClockStep) -> None:
        """Nothing learns."""
        self.ledger.end_step()
