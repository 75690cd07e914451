"""The loop under the simulated clock: real learning, a stated cluster's time; resumable bit for bit."""

from __future__ import annotations

from typing import Any

from scalerl.loop.clock import Clock
from scalerl.loop.config import RunConfig, SimulatedClock
from scalerl.loop.learner import Learner
from scalerl.loop.save import save_if_due
from scalerl.loop.schedule import Schedule, build_schedule
from scalerl.loop.selective import SelectiveEngine
from scalerl.loop.setup import make_engine
from scalerl.loop.timed_content import TimedContent


class SimulatedLoop:
    """A run whose order of events, versions of tokens and device-hours are the simulated cluster's.

    Evaluation takes no simulated time; it has its own random stream and pinned weights.
    """

    def __init__(
        self, learner: Learner, engine: SelectiveEngine, schedule: Schedule, settings: SimulatedClock
    ) -> None:
        self.learner = learner
        self.content = TimedContent(learner, engine)
        self.clock = Clock(
            settings.profile,
            schedule,
            self.content,
            tokens_per_token=settings.tokens_per_token,
            recompute_kv_on_update=learner.config.engine.recompute_kv_on_update,
        )

    def run(self) -> None:
        """Go on to the config's last step. Raises RunStopped when the run can't."""
        if self.learner.version == 0:
            self.learner.evaluate_if_due(0.0)
        while not self.learner.done:
            reading = self.clock.advance()
            self.learner.evaluate_if_due(reading.device_hours)
            save_if_due(self.learner, self.state_dict)

    def state_dict(self) -> dict[str, Any]:
        """The whole run between two events: the learner's state, all that is in flight, the clock."""
        return {
            "learner": self.learner.state_dict(),
            "content": self.content.state_dict(),
            "clock": self.clock.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; the policy must hold the weights of the same checkpoint."""
        self.learner.load_state_dict(state["learner"])
        self.content.load_state_dict(state["content"])
        self.clock.load_state_dict(state["clock"])


def build_simulated_loop(config: RunConfig, settings: SimulatedClock, learner: Learner) -> SimulatedLoop:
    """Return a run's loop under a simulated clock; the slots are the profile's, not `config.engine`'s."""
    profile = settings.profile
    slots = profile.generators * profile.slots_per_generator
    policy, prompter = learner.trainer.policy, learner.assembly.prompter
    engine = make_engine(SelectiveEngine, config, policy, prompter, config.seed, slots)
    schedule = build_schedule(config.recipe.schedule, config.recipe.sizes.prompts_per_step)
    return SimulatedLoop(learner, engine, schedule, settings)
