"""PPO-off-policy-k and PipelineRL-k as rules over a ledger (method, section 3): no time, no device, no torch.

A loop asks three things, wherever it runs: how many groups may start now, which groups the trainer takes next
(or that it must wait), and whether weights go to the generators after a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from scalerl.loop.ledger import Ledger
from scalerl.recipe import axes


class Schedule(Protocol):
    """The rule that couples generators and trainer."""

    @property
    def k(self) -> int:
        """The off-policy bound."""
        ...

    @property
    def prompts_per_step(self) -> int:
        """Groups in one trainer step."""
        ...

    @property
    def max_staleness(self) -> int:
        """No group is trained at a version further than this from its start (`Ledger.staleness`)."""
        ...

    def groups_to_admit(self, ledger: Ledger, free_groups: int, generator_version: int) -> int:
        """How many groups may start now on a generator at `generator_version` with room for `free_groups`."""
        ...

    def next_batch(self, ledger: Ledger) -> tuple[int, ...] | None:
        """The groups of the trainer's next step, oldest first; None when it must wait."""
        ...

    def publishes_after(self, version: int) -> bool:
        """Whether the weights of `version` go to the generators when the step that made it ends."""
        ...


@dataclass(frozen=True, slots=True)
class PpoOffPolicy:
    """Turns: k x prompts_per_step groups with one set of weights, k trainer steps, then new weights."""

    k: int
    prompts_per_step: int

    def __post_init__(self) -> None:
        _check(self.k, self.prompts_per_step)

    @property
    def max_staleness(self) -> int:
        """The last of the k steps is k - 1 versions after the weights that sampled its groups."""
        return self.k - 1

    def _wanted(self, ledger: Ledger) -> int:
        """Groups that the rest of this turn trains, those of a step in progress not counted."""
        steps_left = self.k - ledger.next_step % self.k
        return steps_left * self.prompts_per_step

    def groups_to_admit(self, ledger: Ledger, free_groups: int, generator_version: int) -> int:
        """What is missing from the turn's k x prompts_per_step, while the generator has the turn's weights.

        Groups dropped from the ledger (dynamic sampling) are made up for, with the same weights: the trainer
        hasn't begun.
        """
        if ledger.training or ledger.version % self.k or generator_version != ledger.version:
            return 0
        return max(0, min(free_groups, self._wanted(ledger) - ledger.outstanding))

    def next_batch(self, ledger: Ledger) -> tuple[int, ...] | None:
        """The next prompts_per_step groups, once all that this turn trains are finished."""
        if ledger.training or ledger.running or len(ledger.finished) < self._wanted(ledger):
            return None
        return ledger.oldest_finished(self.prompts_per_step)

    def publishes_after(self, version: int) -> bool:
        """After every k-th step."""
        return version % self.k == 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """PipelineRL-k: generators never stop for the trainer; it waits rather than let a group grow too old.

    The method's rule is that the step from v to v + 1 is taken only if every group still running or queued
    started at a version >= v + 1 - k. Alone it bounds ages at the next step, but not when more groups of
    one age remain, running or finished, than one step can hold. The rule here is its closure: of the N(s)
    outstanding groups that started at s or before, the last must be trained by the step at version s + k,
    which leaves s + k - v + 1 steps of P = prompts_per_step groups:

        N(s) <= (s + k - v + 1) P        for every s, v the version of the next step.

    Admission keeps it (so at most (k + 1) P groups are outstanding: back-pressure when generators outrun
    the trainer) and so does the choice of a batch; s = v - k after the step is the method's rule itself.
    Oldest first is then a feasible order, whatever finishes when: staleness is at most k, nothing is thrown
    away, and once all that runs has finished a step is always allowed.
    """

    k: int
    prompts_per_step: int

    def __post_init__(self) -> None:
        _check(self.k, self.prompts_per_step)

    @property
    def max_staleness(self) -> int:
        """K versions."""
        return self.k

    def groups_to_admit(self, ledger: Ledger, free_groups: int, generator_version: int) -> int:
        """As many as leave a step in time for every outstanding group."""
        margin = self._margin(ledger.starts(), ledger.next_step, since=generator_version)
        return max(0, min(free_groups, margin))

    def next_batch(self, ledger: Ledger) -> tuple[int, ...] | None:
        """The oldest finished groups, unless those left behind could then not all be trained in time."""
        if ledger.training or len(ledger.finished) < self.prompts_per_step:
            return None
        batch = ledger.oldest_finished(self.prompts_per_step)
        taken = frozenset(batch)
        left = [*ledger.running.values()]
        left += [start for group, start in ledger.finished.items() if group not in taken]
        if left and self._margin(left, ledger.next_step + 1, since=min(left)) < 0:
            return None
        return batch

    def publishes_after(self, version: int) -> bool:
        """After every step."""
        return True

    def _margin(self, starts: Iterable[int], next_step: int, since: int) -> int:
        """How many more groups started at `since` fit: least (s + k - v + 1) P - N(s) over s >= `since`."""
        outstanding = Counter(starts)
        older = sum(count for start, count in outstanding.items() if start < since)
        margin = None
        for start in sorted({since, *(start for start in outstanding if start > since)}):
            older += outstanding[start]
            room = (start + self.k - next_step + 1) * self.prompts_per_step - older
            margin = room if margin is None else min(margin, room)
        assert margin is not None
        return margin


def _check(k: int, prompts_per_step: int) -> None:
    if k < 1:
        raise ValueError(f"a schedule's k is at least 1, not {k}")
    if prompts_per_step < 1:
        raise ValueError(f"a trainer step has at least one prompt, not {prompts_per_step}")


def build_schedule(axis: axes.Schedule, prompts_per_step: int) -> Schedule:
    """Return the rules that a recipe's schedule axis names."""
    if isinstance(axis, axes.PpoOffPolicy):
        return PpoOffPolicy(axis.k, prompts_per_step)
    return Pipeline(axis.k, prompts_per_step)
