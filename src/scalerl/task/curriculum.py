"""Which prompt is sampled next: epochs over a finite set, and prompts that are retired for good."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from scalerl.errors import UserError
from scalerl.recipe.axes import CustomCurriculum, NoPositiveResampling, Uniform
from scalerl.recipe.custom import load_function


class Curriculum(Protocol):
    """What the loop asks; a user's own curriculum offers the same."""

    @property
    def retired(self) -> int:
        """How many prompts will never be sampled again."""
        ...

    def next(self) -> str | None:
        """Return the next prompt's id, or None when every prompt is retired: the run then ends, saying so."""
        ...

    def observe(self, prompt_id: str, passed: int, sampled: int) -> None:
        """Take a finished group's outcome: of `sampled` surviving completions, `passed` were right."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return plain data to continue from, prompt for prompt."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        ...


def build_curriculum(
    option: Uniform | NoPositiveResampling | CustomCurriculum, prompt_ids: Sequence[str], seed: int
) -> Curriculum:
    """Return a recipe's curriculum over a training set. Raises UserError for an empty set or a bad file."""
    if not prompt_ids:
        raise UserError("the training set has no prompts: check the task and sizes.max_prompt_tokens")
    if isinstance(option, CustomCurriculum):
        curriculum: Curriculum = load_function(option)(prompt_ids, seed)
        return curriculum
    if isinstance(option, NoPositiveResampling):
        return Epochs(prompt_ids, seed, threshold=option.threshold, history=option.history)
    return Epochs(prompt_ids, seed)


class Epochs:
    """Every prompt once an epoch, ordered by (seed, epoch); with a threshold, No-Positive-Resampling.

    A prompt's pass rate is that of its latest group (`last_visit`) or of all its completions so far
    (`all_visits`). Once it reaches `threshold` the prompt is retired: from the second epoch on it isn't
    sampled again, whatever groups of it still in flight bring. It is looked at when the prompt's turn
    comes, so a group that finishes late still counts. An epoch's first visit is never refused.
    """

    def __init__(
        self,
        prompt_ids: Sequence[str],
        seed: int,
        *,
        threshold: float | None = None,
        history: Literal["last_visit", "all_visits"] = "last_visit",
    ) -> None:
        self._prompt_ids = tuple(prompt_ids)
        self._known = frozenset(prompt_ids)
        if len(self._known) < len(self._prompt_ids):
            raise UserError(
                "the training set holds a prompt twice: drop duplicates (prompts are told apart by id)"
            )
        self._seed = seed
        self._threshold = threshold
        self._history = history
        self._epoch = 1
        self._position = 0
        self._order = self._draw_order()
        self._passed: dict[str, int] = {}
        self._sampled: dict[str, int] = {}
        self._retired: set[str] = set()

    @property
    def epoch(self) -> int:
        """The current epoch, from 1."""
        return self._epoch

    @property
    def retired(self) -> int:
        """How many prompts will never be sampled again."""
        return len(self._retired)

    def next(self) -> str | None:
        """Return the next prompt's id, or None when every prompt is retired and the first epoch is over."""
        for _ in range(2 * len(self._prompt_ids) + 1):
            if self._position == len(self._prompt_ids):
                if len(self._retired) == len(self._prompt_ids):
                    return None
                self._epoch, self._position = self._epoch + 1, 0
                self._order = self._draw_order()
            prompt_id = self._prompt_ids[self._order[self._position]]
            self._position += 1
            if self._epoch == 1 or prompt_id not in self._retired:
                return prompt_id
        return None

    def observe(self, prompt_id: str, passed: int, sampled: int) -> None:
        """Take a finished group's outcome; a group without survivors says nothing about its prompt."""
        if prompt_id not in self._known:
            raise ValueError(f"prompt {prompt_id!r} isn't of this training set")
        if not 0 <= passed <= sampled:
            raise ValueError(f"prompt {prompt_id!r}: {passed} passed of {sampled} sampled")
        if self._threshold is None or sampled == 0:
            return
        if self._history == "all_visits":
            passed += self._passed.get(prompt_id, 0)
            sampled += self._sampled.get(prompt_id, 0)
        self._passed[prompt_id], self._sampled[prompt_id] = passed, sampled
        # counts, not floats: 9 of 10 reaches 0.9
        if passed >= self._threshold * sampled - 1e-9:
            self._retired.add(prompt_id)

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data: position, histories, retired prompts, and which set they are about."""
        return {
            "prompts": self._fingerprint(),
            "seed": self._seed,
            "epoch": self._epoch,
            "position": self._position,
            "passed": dict(self._passed),
            "sampled": dict(self._sampled),
            "retired": sorted(self._retired),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s data. Raises UserError when it is about another training set."""
        if state["prompts"] != self._fingerprint():
            raise UserError(
                "the checkpoint's curriculum is about another training set (other prompts, other order): "
                "resume with the data that the run began with"
            )
        self._seed, self._epoch, self._position = state["seed"], state["epoch"], state["position"]
        self._passed, self._sampled = dict(state["passed"]), dict(state["sampled"])
        self._retired = set(state["retired"])
        self._order = self._draw_order()

    def _draw_order(self) -> list[int]:
        rng = np.random.default_rng([self._seed, self._epoch])
        order: list[int] = rng.permutation(len(self._prompt_ids)).tolist()
        return order

    def _fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self._prompt_ids).encode()).hexdigest()
