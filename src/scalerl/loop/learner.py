"""What every loop shares, whatever its clock: admission, judging, training, evaluation, the record.

A loop drives an engine (when and with which weights tokens are decoded) and calls the learner for the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.loop.accounting import Accountant
from scalerl.loop.config import RunConfig
from scalerl.loop.heldout import HeldOut
from scalerl.loop.ledger import Ledger
from scalerl.loop.rollouts import Assembly, draw_budgets, scored_from_state, scored_to_state, tokens_of
from scalerl.loop.scored import ScoredGroup
from scalerl.loop.trainer import Trainer
from scalerl.objective.alarms import AlarmState
from scalerl.record.schema import Compute, Evaluation
from scalerl.record.write import RunWriter
from scalerl.task.curriculum import Curriculum


class Listener(Protocol):
    """Hears of a run's progress; nothing that it does changes the run."""

    def on_step(self, row: Mapping[str, Any]) -> None:
        """A trainer step was recorded."""
        ...

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """An evaluation was recorded: of the whole held-out set, a mixture's domains are beside it."""
        ...

    def on_event(self, kind: str, message: str) -> None:
        """Something that the user should see: a resume, an alarm."""
        ...


class RunStopped(Exception):  # noqa: N818 - an outcome, not a fault
    """The run can't go on (no prompts left, no finite gradient); its last checkpoint is kept."""


class Learner:
    """The state of a run apart from its engine, and the operations that change it."""

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        assembly: Assembly,
        curriculum: Curriculum,
        held_out: HeldOut,
        writer: RunWriter,
        listener: Listener,
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.assembly = assembly
        self.curriculum = curriculum
        self.held_out = held_out
        self.writer = writer
        self.listener = listener
        self.ledger = Ledger()
        self.accountant = Accountant(trainer.policy.parameters_without_embeddings())
        self.alarms = AlarmState()
        self._admitted = 0
        self._finished: dict[int, ScoredGroup] = {}
        self._uncounted: list[ScoredGroup] = []  # left the batch under dynamic sampling since the last step

    @property
    def version(self) -> int:
        """Finished trainer steps: the policy version of the trainer's weights."""
        return self.ledger.version

    @property
    def done(self) -> bool:
        """Whether all steps of the config are made."""
        return self.version >= self.config.steps

    def admit(self, count: int, generator_version: int) -> list[GroupRequest]:
        """Draw `count` prompts from the curriculum; their groups start at `generator_version`."""
        requests = []
        for _ in range(count):
            prompt_id = self.curriculum.next()
            if prompt_id is None:
                raise RunStopped("every training prompt is retired: nothing is left to train on")
            group = self._admitted
            self._admitted += 1
            prompt = self.assembly.prompter.encode(self.assembly.examples[prompt_id])
            recipe = self.config.recipe
            generations = recipe.sizes.generations_per_prompt
            budgets = draw_budgets(recipe.budgets, self.config.seed, "training", group, generations)
            requests.append(GroupRequest(group, prompt_id, prompt, budgets))
            self.assembly.expect(requests[-1])
            self.ledger.admit(group, generator_version)
            self.accountant.prefilled(len(prompt))
        return requests

    def receive(self, completions: Sequence[Completion]) -> None:
        """Take finished completions; groups that are whole now are judged and wait for the trainer."""
        if not completions:
            return
        self.accountant.generated(sum(len(completion.tokens) for completion in completions))
        for group in self.assembly.take(completions):
            outcomes = group.outcomes()
            self.curriculum.observe(group.prompt_id, sum(outcomes), len(outcomes))
            self.ledger.finish(group.group)
            if self.trainer.objective.counts_towards_batch(group):
                self._finished[group.group] = group
            else:
                self.ledger.drop(group.group)
                self._uncounted.append(group)

    def finished(self, batch: Sequence[int]) -> list[ScoredGroup]:
        """Return these finished groups, judged."""
        return [self._finished[group] for group in batch]

    def train(
        self,
        batch: Sequence[int],
        device_hours: float | None = None,
        clock: Mapping[str, float] | None = None,
    ) -> None:
        """Take the trainer step on these groups and record it, with what a simulated clock shows of it."""
        started = time.perf_counter()
        if not self.ledger.training:
            self.ledger.begin_step(batch)
        staleness = self.ledger.staleness()
        groups = [self._finished.pop(group) for group in batch]
        report = self.trainer.step(groups + self._uncounted)
        refilled = len(self._uncounted)
        self._uncounted = []
        self.ledger.end_step()
        self.accountant.trained(report.tokens_forwarded, report.tokens_trained)
        row = {
            "step": self.version,
            **report.metrics,
            "refilled_prompts": refilled,
            "retired_prompts": self.curriculum.retired,
            "staleness_mean": sum(staleness) / len(staleness),
            "staleness_max": max(staleness),
            "tokens_in_batch": tokens_of(groups),
            "tokens_forwarded": report.tokens_forwarded,
            **(clock or {}),
            "compute": self.accountant.compute(device_hours),
        }
        self.writer.step(row)
        self.writer.timing({"step": self.version, "phase": "train", "seconds": time.perf_counter() - started})
        self.listener.on_step(row)
        self._watch(row)

    def _watch(self, row: Mapping[str, Any]) -> None:
        self.alarms, raised = self.alarms.observe(row)
        for alarm in raised:
            self.writer.event(alarm.kind, alarm.message, step=self.version)
            self.listener.on_event(alarm.kind, alarm.message)
            if alarm.stop:
                raise RunStopped(alarm.message)

    def evaluate_if_due(self, device_hours: float | None = None) -> None:
        """Evaluate the trainer's weights at step 0, when the plan says so and at the end."""
        plan = self.config.evaluation
        if not (plan.due(self.version) or self.done):
            return
        repeats = plan.repeats_at_start if self.version == 0 else 1
        weights = self.trainer.policy.weights()
        for repeat in range(repeats):
            started = time.perf_counter()
            compute = self.accountant.compute(device_hours) if self.version else zero_compute(device_hours)
            sets = self.held_out.evaluate(weights, self.version, self.version, repeat, compute)
            whole, *_ = [self.writer.evaluation(evaluation, counts) for evaluation, counts in sets]
            seconds = time.perf_counter() - started
            self.writer.timing({"step": self.version, "phase": "evaluate", "seconds": seconds})
            self.listener.on_evaluation(whole)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the weights (saved as a model folder beside) and the engine."""
        return {
            "admitted": self._admitted,
            "ledger": self.ledger.state_dict(),
            "assembly": self.assembly.state_dict(),
            "finished": [scored_to_state(group) for group in self._finished.values()],
            "uncounted": [scored_to_state(group) for group in self._uncounted],
            "curriculum": self.curriculum.state_dict(),
            "accountant": self.accountant.state_dict(),
            "alarms": self.alarms.state_dict(),
            "trainer": self.trainer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the policy must hold the weights of the same checkpoint."""
        self._admitted = state["admitted"]
        self.ledger.load_state_dict(state["ledger"])
        self.assembly.load_state_dict(state["assembly"])
        self._finished = {row["group"]: scored_from_state(row) for row in state["finished"]}
        self._uncounted = [scored_from_state(row) for row in state["uncounted"]]
        self.curriculum.load_state_dict(state["curriculum"])
        self.accountant.load_state_dict(state["accountant"])
        self.alarms = AlarmState.from_state_dict(state["alarms"])
        self.trainer.load_state_dict(state["trainer"])


def zero_compute(device_hours: float | None) -> Compute:
    """Return the stamp of the untrained policy: nothing was spent, whatever is in flight already."""
    hours = None if device_hours is None else 0.0
    return Compute(device_hours=hours, tokens_generated=0, tokens_trained=0, flops=0.0)
