"""One virtual generator: slots, members waiting for one, and the chunk of decode steps in progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Member = tuple[int, int]
"""A completion: its group's admission number and its sample's index."""


@dataclass(slots=True)
class Meter:
    """Seconds of work and of idleness of one reserved device (or of several that work as one)."""

    busy: float = 0.0
    idle: float = 0.0
    since: float = 0.0
    working: bool = False

    def read(self, now: float) -> None:
        """Bring the counts up to `now`."""
        if self.working:
            self.busy += now - self.since
        else:
            self.idle += now - self.since
        self.since = now

    def switch(self, now: float, working: bool) -> None:
        """Work starts or ends at `now`."""
        self.read(now)
        self.working = working

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"busy": self.busy, "idle": self.idle, "since": self.since, "working": self.working}


@dataclass(slots=True)
class Device:
    """A generator's state between two events.

    A boundary is the moment between two tokens of every active completion: new weights, new members and
    finished ones come and go there. A chunk is a run of boundaries between which nothing changes; it begins
    at `chunk_start` (after any prefill) and has `chunk_boundaries` of them, none when the device is idle.
    """

    number: int
    slots: int
    version: int = 0
    boundary: int = 0
    """Boundaries passed since the beginning."""
    active: dict[Member, int] = field(default_factory=dict)
    """Members in a slot, with the boundary at which they started."""
    waiting: deque[Member] = field(default_factory=deque)
    """Members admitted to this device that have no slot yet, in order."""
    context: int = 0
    """Tokens in the KV cache, over all active members (simulated tokens)."""
    prefixes: dict[int, int] = field(default_factory=dict)
    """Groups with members yet to start whose prompt is in the KV cache, with the version that read it."""
    chunk_start: float = 0.0
    chunk_boundaries: int = 0
    in_chunk: bool = False
    event: int = 0
    """Serial number of the boundary event that counts; earlier ones were overtaken by an interruption."""
    meter: Meter = field(default_factory=Meter)
    slot_seconds: float = 0.0
    """Occupied slots, integrated over time."""

    @property
    def room(self) -> int:
        """Slots left when all that wait have one (negative: some will still wait)."""
        return self.slots - len(self.active) - len(self.waiting)

    def read(self, now: float) -> None:
        """Bring the counts of time up to `now`."""
        if self.meter.working:
            self.slot_seconds += len(self.active) * (now - self.meter.since)
        self.meter.read(now)

    def switch(self, now: float, working: bool) -> None:
        """Work starts or ends at `now`."""
        self.read(now)
        self.meter.working = working

    def state_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, fit for JSON (order kept)."""
        return {
            "number": self.number,
            "slots": self.slots,
            "version": self.version,
            "boundary": self.boundary,
            "active": [[group, sample, started] for (group, sample), started in self.active.items()],
            "waiting": [list(member) for member in self.waiting],
            "context": self.context,
            "prefixes": [[group, version] for group, version in self.prefixes.items()],
            "chunk_start": self.chunk_start,
            "chunk_boundaries": self.chunk_boundaries,
            "in_chunk": self.in_chunk,
            "event": self.event,
            "meter": self.meter.state_dict(),
            "slot_seconds": self.slot_seconds,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Device:
        """Rebuild what `state_dict` gave."""
        plain = dict(state)
        plain["active"] = {(group, sample): started for group, sample, started in state["active"]}
        plain["waiting"] = deque((group, sample) for group, sample in state["waiting"])
        plain["prefixes"] = dict(state["prefixes"])
        plain["meter"] = Meter(**state["meter"])
        return cls(**plain)
