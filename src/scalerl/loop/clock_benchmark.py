"""What the simulated clock costs: its own CPU time, and a run's slowdown against the plain loop.

Both loops make the same number of steps of one config, by turns; steps before the measured ones fill the
pipeline. The slowdown is more than the clock's own work: the many virtual generators break batches up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from scalerl.loop.config import RunConfig, SimulatedClock
from scalerl.loop.content import Content
from scalerl.loop.run import build_loop
from scalerl.loop.setup import build_learner, open_record, pinned, task_of
from scalerl.loop.simulated import SimulatedLoop
from scalerl.record.schema import Evaluation


@dataclass(frozen=True)
class LoopCost:
    """CPU seconds of a loop's measured steps, and of them those inside the clock (0 for the plain loop)."""

    cpu_seconds: float
    clock_cpu_seconds: float


def loop_cost(config: RunConfig, folder: Path, measured_steps: int) -> LoopCost:
    """Run `config` into `folder` and return the cost of its last `measured_steps` steps.

    The config must have more steps than are measured. Raises RunStopped when the run can't go on.
    """
    marks = _Marks()
    with pinned(config):
        task = task_of(config)
        writer, _ = open_record(config, task, folder)
        loop = build_loop(config, build_learner(config, task, writer, marks, None))
        if isinstance(loop, SimulatedLoop):
            metered = _Metered(loop.content)
            loop.clock.content = cast(Content, metered)
            marks.inside = metered
        loop.run()
    (first, inside_first), (last, inside_last) = marks.at[-1 - measured_steps], marks.at[-1]
    total, inside = last - first, inside_last - inside_first
    return LoopCost(total, total - inside if config.clock else 0.0)


def costs_by_turns(
    config: RunConfig, clock: SimulatedClock, folder: Path, *, measured_steps: int, rounds: int
) -> tuple[Sequence[LoopCost], Sequence[LoopCost]]:
    """Return the costs of the plain loop and of the loop under `clock`, `rounds` of each, by turns."""
    clocked = config.model_copy(update={"clock": clock})
    plain, timed = [], []
    for number in range(rounds):
        plain.append(loop_cost(config, folder / f"plain-{number}", measured_steps))
        timed.append(loop_cost(clocked, folder / f"clock-{number}", measured_steps))
    return plain, timed


class _Metered:
    """A content whose calls are timed: what is left of a run's time is the clock's own."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._spent = 0.0
        self._running_since: float | None = None

    def until(self, now: float) -> float:
        """CPU seconds inside the content until `now`, the running call included."""
        return self._spent + (now - self._running_since if self._running_since is not None else 0.0)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._content, name)
        if not callable(value):
            return value

        def timed(*arguments: Any) -> Any:
            self._running_since = time.process_time()
            try:
                return value(*arguments)
            finally:
                self._spent = self.until(time.process_time())
                self._running_since = None

        return timed


class _Marks:
    """A listener that notes the CPU time at each step, all of it and what was spent inside the content."""

    def __init__(self) -> None:
        self.at: list[tuple[float, float]] = []
        self.inside: _Metered | None = None

    def on_step(self, row: Mapping[str, Any]) -> None:
        """Called inside the content, at a step's end."""
        now = time.process_time()
        self.at.append((now, self.inside.until(now) if self.inside else 0.0))

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Evaluations aren't measured: the config has none between the measured steps."""

    def on_event(self, kind: str, message: str) -> None:
        """Nothing is shown."""
