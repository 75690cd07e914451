"""Alarms over the steps of a run: a small state machine, saved with the checkpoint.

It only watches the numbers of steps.jsonl; what to do about a NaN gradient (skip, stop) it says, the loop
does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

WINDOW_STEPS = 20
"""Steps over which truncation must last, and over which mismatch and entropy are averaged."""
TRUNCATED_SHARE = 0.10
"""Truncation that announces instability (A.15: 10-15%)."""
MISMATCH_GROWTH = 4.0
"""Growth of KL(pi_gen || pi_train) over its first window's mean that raises an alarm."""
MISMATCH_FLOOR = 1e-3
"""Nats a token below which a mismatch is never alarming."""
ENTROPY_SHARE = 0.1
"""Share of the first window's entropy below which it has collapsed."""
MAX_SKIPPED_IN_A_ROW = 5
"""Steps with a NaN gradient in a row after which the run stops."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something the user should see; `stop`: the run must end, its last checkpoint kept."""

    kind: str
    message: str
    stop: bool = False


@dataclass(frozen=True, slots=True)
class AlarmState:
    """What the alarms remember: a first window as baseline, the latest window, and which alarms are on.

    An alarm is raised once when its condition begins, and again only after the condition has ended in
    between.
    """

    baseline: dict[str, tuple[float, ...]] = field(default_factory=dict)
    recent: dict[str, tuple[float, ...]] = field(default_factory=dict)
    truncated_steps: int = 0
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    on: frozenset[str] = frozenset()

    def observe(self, step: Mapping[str, Any]) -> tuple[AlarmState, tuple[Alarm, ...]]:
        """Take one step's numbers; return the next state and the alarms that this step raises.

        Read, where there: truncated_share, kl_generator_trainer, entropy, grad_norm (NaN or infinite: the
        loop skips the step) and loss.
        """
        state = self._remember("kl_generator_trainer", step)._remember("entropy", step)
        if (truncated := step.get("truncated_share")) is not None:
            state = replace(
                state, truncated_steps=state.truncated_steps + 1 if truncated > TRUNCATED_SHARE else 0
            )
        bad = any(not math.isfinite(step[key]) for key in ("grad_norm", "loss") if step.get(key) is not None)
        state = replace(
            state,
            skipped_steps=state.skipped_steps + bad,
            skipped_in_a_row=state.skipped_in_a_row + 1 if bad else 0,
        )
        ringing = {alarm.kind: alarm for alarm in state._conditions()}
        new = tuple(alarm for kind, alarm in ringing.items() if kind not in self.on or alarm.stop)
        return replace(state, on=frozenset(ringing)), new

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {**asdict(self), "on": sorted(self.on)}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> AlarmState:
        """Return the state that `state_dict` gave."""
        series = {name: {k: tuple(v) for k, v in state[name].items()} for name in ("baseline", "recent")}
        return cls(**{**state, **series, "on": frozenset(state["on"])})

    def _remember(self, key: str, step: Mapping[str, Any]) -> AlarmState:
        value = step.get(key)
        if value is None or not math.isfinite(value):
            return self
        first = self.baseline.get(key, ())
        recent = (*self.recent.get(key, ()), float(value))[-WINDOW_STEPS:]
        if len(first) < WINDOW_STEPS:
            first = (*first, float(value))
        return replace(self, baseline={**self.baseline, key: first}, recent={**self.recent, key: recent})

    def _means(self, key: str) -> tuple[float, float]:
        """Return the first and the latest window's mean; zeros, which alarm nobody, before it's full."""
        first, recent = self.baseline.get(key, ()), self.recent.get(key, ())
        if len(first) < WINDOW_STEPS:
            return 0.0, 0.0
        return sum(first) / len(first), sum(recent) / len(recent)

    def _conditions(self) -> list[Alarm]:
        alarms = []
        if self.truncated_steps >= WINDOW_STEPS:
            message = (
                f"more than {TRUNCATED_SHARE:.0%} of completions truncated for {self.truncated_steps} steps "
                "in a row: instability is near; raise the token budgets or check the length control"
            )
            alarms.append(Alarm("truncation", message))
        before, now = self._means("kl_generator_trainer")
        if now > max(MISMATCH_FLOOR, MISMATCH_GROWTH * before):
            message = (
                f"KL(generator || trainer) grew from {before:.2g} to {now:.2g} nats a token: check head "
                "precision, staleness and learning rate"
            )
            alarms.append(Alarm("mismatch", message))
        before, now = self._means("entropy")
        if now < ENTROPY_SHARE * before:
            alarms.append(Alarm("entropy", f"entropy fell from {before:.2g} to {now:.2g} nats a token"))
        if self.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            message = f"{self.skipped_in_a_row} steps in a row without a finite gradient: stopping"
            alarms.append(Alarm("nan", message, stop=True))
        elif self.skipped_in_a_row:
            message = f"loss or gradient isn't finite: step skipped ({self.skipped_steps} so far)"
            alarms.append(Alarm("nan", message))
        return alarms
