"""Groups on their way from admission to the trainer: prompts out to an engine, scored groups back."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalerl.generate.protocol import Budget, Completion, GroupRequest
from scalerl.loop.scored import ScoredGroup
from scalerl.recipe.recipe import LengthBudgets
from scalerl.task.protocol import Example, Prompter, Verifier


def draw_budgets(
    lengths: LengthBudgets, seed: int, stream: str, group: int, count: int
) -> tuple[Budget, ...]:
    """Draw each completion's thinking budget, by (seed, stream, group) alone."""
    rng = random.Random(f"{seed} {stream} {group}")
    low, high = lengths.min_thinking_tokens, lengths.max_thinking_tokens
    return tuple(Budget(rng.randint(low, high), lengths.max_answer_tokens) for _ in range(count))


@dataclass
class Assembly:
    """Collects completions into whole groups and has them judged."""

    examples: Mapping[str, Example]
    prompter: Prompter
    verifier: Verifier
    pending: dict[int, list[Completion]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[int, int] = field(default_factory=dict)

    def expect(self, request: GroupRequest) -> None:
        """Say that this group's completions will come."""
        self.sizes[request.group] = len(request.budgets)

    def take(self, completions: Sequence[Completion]) -> list[ScoredGroup]:
        """Add finished completions; return the groups that are whole now, judged, in order of admission."""
        for completion in completions:
            self.pending[completion.group].append(completion)
        touched = sorted({completion.group for completion in completions})
        whole = [group for group in touched if len(self.pending[group]) == self.sizes[group]]
        groups = [sorted(self.pending.pop(group), key=lambda c: c.sample) for group in whole]
        for group in whole:
            del self.sizes[group]
        return score(groups, self.examples, self.prompter, self.verifier)

    def state_dict(self) -> dict[str, Any]:
        """What has come of groups that aren't whole yet."""
        pending = [completion_to_state(c) for completions in self.pending.values() for c in completions]
        return {"pending": pending, "sizes": [[group, size] for group, size in self.sizes.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.pending.clear()
        for row in state["pending"]:
            completion = completion_from_state(row)
            self.pending[completion.group].append(completion)
        self.sizes = dict(state["sizes"])


def score(
    groups: Sequence[Sequence[Completion]],
    examples: Mapping[str, Example],
    prompter: Prompter,
    verifier: Verifier,
) -> list[ScoredGroup]:
    """Have whole groups judged, all in one call of the verifier."""
    flat = [completion for group in groups for completion in group]
    texts = [prompter.decode(completion.tokens.tolist()) for completion in flat]
    judgements = iter(verifier([examples[completion.prompt_id] for completion in flat], texts))
    scored = []
    for group in groups:
        words = [next(judgements) for _ in group]
        passed = [None if word is None else word.passed for word in words]
        reward = [None if word is None else word.reward for word in words]
        scored.append(ScoredGroup(group[0].group, group[0].prompt_id, tuple(group), passed, reward))
    return scored


def completion_to_state(completion: Completion) -> dict[str, Any]:
    """Return a completion as plain lists and numbers."""
    return {
        "group": completion.group,
        "prompt_id": completion.prompt_id,
        "sample": completion.sample,
        "prompt": list(completion.prompt),
        "tokens": completion.tokens,
        "logprobs": completion.logprobs,
        "versions": completion.versions,
        "sampled": completion.sampled,
        "finish": completion.finish,
        "interrupted": completion.interrupted,
    }


def completion_from_state(state: Mapping[str, Any]) -> Completion:
    """Return the completion that `completion_to_state` wrote."""
    return Completion(**{**state, "prompt": tuple(state["prompt"])})


def scored_to_state(group: ScoredGroup) -> dict[str, Any]:
    """Return a scored group as a state tree."""
    completions = [completion_to_state(completion) for completion in group.completions]
    return {
        "group": group.group,
        "prompt_id": group.prompt_id,
        "completions": completions,
        "passed": list(group.passed),
        "reward": list(group.reward),
    }


def scored_from_state(state: Mapping[str, Any]) -> ScoredGroup:
    """Return the scored group that `scored_to_state` wrote."""
    completions = tuple(completion_from_state(row) for row in state["completions"])
    return ScoredGroup(state["group"], state["prompt_id"], completions, state["passed"], state["reward"])


def tokens_of(groups: Sequence[ScoredGroup]) -> int:
    """Count sampled and injected tokens of groups."""
    return int(np.sum([len(c.tokens) for group in groups for c in group.completions], dtype=np.int64))
