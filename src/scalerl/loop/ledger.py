"""What a schedule needs to know about a run: the trainer's version and where every untrained group stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Ledger:
    """Groups from admission to the trainer step that uses them up.

    `version` counts finished trainer steps. `running` (admitted, not all of its completions finished),
    `finished` (waiting for the trainer) and `training` (in the step in progress) map a group's admission
    number to its start version: the policy version of its generator when it was admitted. A group is in
    exactly one of them, and leaves by `end_step` (trained) or `drop` (under a reason that the loop names
    and counts: zero variance under dynamic sampling, failed, ...).
    """

    version: int = 0
    running: dict[int, int] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)
    training: dict[int, int] = field(default_factory=dict)

    @property
    def next_step(self) -> int:
        """The version that the next batch to be chosen will meet (a step in progress counts as made)."""
        return self.version + (1 if self.training else 0)

    @property
    def outstanding(self) -> int:
        """Groups that wait to be trained: running or finished."""
        return len(self.running) + len(self.finished)

    def starts(self) -> Iterator[int]:
        """Start versions of the outstanding groups, in no particular order."""
        yield from self.running.values()
        yield from self.finished.values()

    def oldest_finished(self, count: int) -> tuple[int, ...]:
        """Up to `count` finished groups, oldest first: by start version, then admission number."""
        ranked = sorted(self.finished.items(), key=lambda item: (item[1], item[0]))
        return tuple(group for group, _ in ranked[:count])

    def admit(self, group: int, start_version: int) -> None:
        """A group goes to a generator that holds `start_version`."""
        if group in self.running or group in self.finished or group in self.training:
            raise ValueError(f"group {group} was admitted before")
        if not 0 <= start_version <= self.version:
            raise ValueError(
                f"group {group} starts at version {start_version}; the trainer has made {self.version}"
            )
        self.running[group] = start_version

    def finish(self, group: int) -> None:
        """The last completion of a running group is there (and judged): the group waits for the trainer."""
        self.finished[group] = self.running.pop(group)

    def drop(self, group: int) -> None:
        """A running or finished group leaves untrained; the loop counts it under its reason."""
        if group in self.running:
            del self.running[group]
        else:
            del self.finished[group]

    def begin_step(self, batch: Sequence[int]) -> None:
        """The trainer starts its step on these finished groups."""
        if self.training:
            raise ValueError(f"step {self.version + 1} is still in progress")
        if not batch:
            raise ValueError("a trainer step needs at least one group")
        self.training = {group: self.finished.pop(group) for group in batch}

    def end_step(self) -> int:
        """The step in progress is made; return the new version."""
        if not self.training:
            raise ValueError("no step is in progress")
        self.training = {}
        self.version += 1
        return self.version

    def staleness(self) -> tuple[int, ...]:
        """Staleness of each group of the step in progress, in batch order: trainer's version minus its start.

        The trainer's version is the one whose gradient is taken, so a group started with the very weights
        that it trains has staleness 0, and a token sampled by a later version during the group's life has
        less.
        """
        return tuple(self.version - start for start in self.training.values())

    def state_dict(self) -> dict[str, Any]:
        """Plain lists and integers (order kept), fit for JSON."""
        return {
            "version": self.version,
            "running": [[group, start] for group, start in self.running.items()],
            "finished": [[group, start] for group, start in self.finished.items()],
            "training": [[group, start] for group, start in self.training.items()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.version = state["version"]
        self.running = dict(state["running"])
        self.finished = dict(state["finished"])
        self.training = dict(state["training"])
