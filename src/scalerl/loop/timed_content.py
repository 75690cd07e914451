"""The learning run as the simulated clock's content: real completions, real rewards, real trainer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from torch import Tensor

from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.requests import request_from_state, request_to_state
from scalerl.loop.device import Member
from scalerl.loop.learner import Learner
from scalerl.loop.ledger import Ledger
from scalerl.loop.readings import ClockStep
from scalerl.loop.rollouts import completion_from_state, completion_to_state
from scalerl.loop.scored import ScoredGroup
from scalerl.loop.selective import SelectiveEngine

Weights = dict[str, Tensor]

_SECONDS = (
    "seconds",
    "generator_busy_seconds",
    "generator_idle_seconds",
    "slot_seconds",
    "trainer_busy_seconds",
    "trainer_idle_seconds",
)


class TimedContent:
    """`content.Content` of a learner and an engine.

    A device's next token is due when its step ends, and the weights that sample it are known when the step
    begins. So decoding waits until some step ends whose token isn't there; then the tokens of all devices
    that are in a step are decoded as one batch. New weights are loaded when they arrive, after every step
    begun before has its token.
    """

    def __init__(self, learner: Learner, engine: SelectiveEngine) -> None:
        self._learner, self._engine = learner, engine
        self._requests: dict[int, GroupRequest] = {}  # groups that have members without all their tokens
        self._home: dict[Member, int] = {}  # members in a slot -> their device
        self._starting: dict[int, list[Member]] = {}  # by device: in a slot, without a token yet
        self._due: dict[int, None] = {}  # devices in a step whose tokens aren't decoded yet, in order
        self._ended: dict[int, list[Member]] = {}  # by device: who finishes when its step ends
        self._unjudged: dict[int, list[Completion]] = {}
        self._sent: dict[int, Weights] = {}  # on their way, by version
        self._held = copies(learner.trainer.policy.weights())  # what the engine holds, for checkpoints
        self._last: ClockStep | None = None
        self.decode_calls = 0
        """Forward passes of the engine so far, for the benchmark."""

    @property
    def ledger(self) -> Ledger:
        """The learner's."""
        return self._learner.ledger

    def admit(self, version: int) -> tuple[int, int, int]:
        """The curriculum's next prompt."""
        (request,) = self._learner.admit(1, version)
        self._requests[request.group] = request
        return request.group, len(request.prompt), len(request.budgets)

    def start(self, device: int, members: Sequence[Member]) -> None:
        """Their first tokens come with the device's next step."""
        self._home.update(dict.fromkeys(members, device))
        self._starting.setdefault(device, []).extend(members)

    def run(self, device: int) -> int:
        """One token at a time: whether it's a last one isn't known before."""
        self._due[device] = None
        return 1

    def stop(self, device: int, boundaries: int) -> list[Member]:
        """The step's tokens are needed now."""
        if device in self._due:
            self._decode()
        return self._ended.pop(device)

    def publish(self, version: int) -> None:
        """Keep a copy while they travel: the trainer goes on."""
        self._sent[version] = copies(self._learner.trainer.policy.weights())

    def take_weights(self, version: int) -> None:
        """Steps begun before are sampled with the old weights."""
        if self._due:
            self._decode()
        self._held = self._sent.pop(version)
        self._engine.load_weights(self._held, version)

    def judge(self, group: int) -> None:
        """Hand the group over to the learner."""
        self._learner.receive(self._unjudged.pop(group))

    def begin_step(self, batch: Sequence[int]) -> int:
        """Tokens of the completions that will be trained on, each kept prompt's once."""
        self.ledger.begin_step(batch)
        groups = [
            group for group in self._learner.finished(batch) if self._learner.trainer.objective.keeps(group)
        ]
        prompts = sum(len(group.completions[0].prompt) for group in groups)
        return prompts + sum(len(group.completions[i].tokens) for group in groups for i in group.surviving)

    def end_step(self, reading: ClockStep) -> None:
        """Train, and record the step with what the clock shows."""
        groups = self._learner.finished(tuple(self.ledger.training))
        fields = {**_since(reading, self._last), **_of_batch(groups, self.ledger.version)}
        self._last = reading
        self._learner.train(tuple(self.ledger.training), reading.device_hours, fields)

    def _decode(self) -> None:
        """Decode one token of every member of every device that is due one."""
        starting = [member for device in self._due for member in self._starting.pop(device, [])]
        pairs = [(self._requests[group], sample) for group, sample in starting]
        held = self._not_due(set(starting))
        for device in self._due:
            self._ended[device] = []
        for completion in self._engine.decode(pairs, held):
            member = (completion.group, completion.sample)
            self._ended[self._home.pop(member)].append(member)
            whole = self._unjudged.setdefault(completion.group, [])
            whole.append(completion)
            if len(whole) == len(self._requests[completion.group].budgets):
                del self._requests[completion.group]
        self._due.clear()
        self.decode_calls += 1

    def _not_due(self, starting: set[Member]) -> set[Member]:
        """Members in flight whose device is in no step, or has its step's tokens already."""
        return {
            member
            for member, device in self._home.items()
            if device not in self._due and member not in starting
        }

    def state_dict(self) -> dict[str, Any]:
        """All of it but the learner's state; tensors and plain values."""
        return {
            "engine": self._engine.state_dict(),
            "requests": [request_to_state(request) for request in self._requests.values()],
            "home": [[*member, device] for member, device in self._home.items()],
            "starting": [[device, [list(m) for m in members]] for device, members in self._starting.items()],
            "due": list(self._due),
            "ended": [[device, [list(m) for m in members]] for device, members in self._ended.items()],
            "unjudged": [completion_to_state(c) for whole in self._unjudged.values() for c in whole],
            "sent": {str(version): weights for version, weights in self._sent.items()},
            "held": self._held,
            "last": None if self._last is None else self._last.as_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the learner is restored before."""
        self._held = dict(state["held"])
        self._engine.load_weights(self._held, state["engine"]["policy_version"])
        self._engine.load_state_dict(state["engine"])
        requests = [request_from_state(row) for row in state["requests"]]
        self._requests = {request.group: request for request in requests}
        self._home = {(group, sample): device for group, sample, device in state["home"]}
        self._starting = {device: _members(rows) for device, rows in state["starting"]}
        self._due = dict.fromkeys(state["due"])
        self._ended = {device: _members(rows) for device, rows in state["ended"]}
        self._unjudged = {}
        for row in state["unjudged"]:
            completion = completion_from_state(row)
            self._unjudged.setdefault(completion.group, []).append(completion)
        self._sent = {int(version): dict(weights) for version, weights in state["sent"].items()}
        self._last = None if state["last"] is None else ClockStep.from_dict(state["last"])


def copies(weights: Mapping[str, Tensor]) -> Weights:
    """Return copies that later optimizer steps don't change."""
    return {name: weight.clone() for name, weight in weights.items()}


def _members(rows: Sequence[Sequence[int]]) -> list[Member]:
    return [(group, sample) for group, sample in rows]


def _since(reading: ClockStep, last: ClockStep | None) -> dict[str, float]:
    """Simulated seconds of this step; busy and idle ones summed over the devices of each side."""
    before = {name: getattr(last, name) if last else 0.0 for name in _SECONDS}
    return {f"simulated_{name}": getattr(reading, name) - before[name] for name in _SECONDS}


def _of_batch(groups: Sequence[ScoredGroup], version: int) -> dict[str, float]:
    """The spread of lengths (alike ones hide idleness) and the mean age of a token, in versions."""
    completions = [completion for group in groups for completion in group.completions]
    lengths = [len(completion.tokens) for completion in completions]
    sampled_by = sum(int(completion.versions.sum()) for completion in completions)
    return {
        "length_cv": pstdev(lengths) / fmean(lengths),
        "token_staleness_mean": version - sampled_by / sum(lengths),
    }
