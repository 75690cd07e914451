"""What the simulated clock shows at the end of each trainer step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The clock at the end of a trainer step. Counts are since the start, unless they say otherwise."""

    step: int
    seconds: float
    device_hours: float
    generator_busy_seconds: float
    """Over all generators, as are the next two."""
    generator_idle_seconds: float
    slot_seconds: float
    trainer_busy_seconds: float
    """Over all trainers, as is the next."""
    trainer_idle_seconds: float
    staleness: tuple[int, ...]
    """Of each group of the step: the trainer's version minus the group's start."""
    training_seconds: float
    """Of this step."""
    tokens: int
    """Simulated tokens decoded, at boundaries passed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> ClockStep:
        """Rebuild what `as_dict` gave."""
        return cls(**{**state, "staleness": tuple(state["staleness"])})
