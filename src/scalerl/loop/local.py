"""The local loop: one process, the embedded engine, as fast as the machine goes; resumable bit for bit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.learner import Learner
from scalerl.loop.save import save_if_due
from scalerl.loop.schedule import Schedule


class LocalLoop:
    """Decode until the schedule has a batch for the trainer, train, hand weights over, evaluate, save."""

    def __init__(self, learner: Learner, engine: TorchEngine, schedule: Schedule) -> None:
        self.learner = learner
        self.engine = engine
        self.schedule = schedule
        self._published = copies(learner.trainer.policy.weights())  # what the engine holds, for checkpoints

    def run(self) -> None:
        """Go on to the config's last step. Raises RunStopped when the run can't."""
        if self.learner.version == 0:
            self.learner.evaluate_if_due()
        while not self.learner.done:
            self._collect_batch()
            batch = self.schedule.next_batch(self.learner.ledger)
            assert batch is not None
            self.learner.train(batch)
            version = self.learner.version
            if self.schedule.publishes_after(version):
                self._published = copies(self.learner.trainer.policy.weights())
                self.engine.load_weights(self._published, version)
            self.learner.evaluate_if_due()
            save_if_due(self.learner, self.state_dict)

    def _collect_batch(self) -> None:
        """Decode, admitting groups as the schedule allows, until a batch is there for the trainer."""
        started = time.perf_counter()
        learner, engine = self.learner, self.engine
        generations = learner.config.recipe.sizes.generations_per_prompt
        while self.schedule.next_batch(learner.ledger) is None:
            free = (learner.config.engine.slots - engine.active - engine.queued) // generations
            count = self.schedule.groups_to_admit(learner.ledger, free, engine.policy_version)
            if count:
                engine.submit(learner.admit(count, engine.policy_version))
            assert engine.active or engine.queued, "the schedule neither admits nor trains"
            learner.receive(engine.step())
        seconds = time.perf_counter() - started
        learner.writer.timing({"step": learner.version, "phase": "generate", "seconds": seconds})

    def state_dict(self) -> dict[str, Any]:
        """The whole run: the learner's state and all that is in flight."""
        behind = self.engine.policy_version != self.learner.version
        return {
            "learner": self.learner.state_dict(),
            "engine": self.engine.state_dict(),
            "published": self._published if behind else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; the policy must hold the weights of the same checkpoint."""
        self.learner.load_state_dict(state["learner"])
        self._published = state["published"] or copies(self.learner.trainer.policy.weights())
        self.engine.load_weights(self._published, state["engine"]["policy_version"])
        self.engine.load_state_dict(state["engine"])


def copies(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that later optimizer steps don't change."""
    return {name: weight.clone() for name, weight in weights.items()}
