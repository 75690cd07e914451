"""What the loop asks of an engine, and what it gets back: the contract of generation and training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Budget:
    """How long one completion may be, in tokens.

    Thinking that is still open after `max_thinking_tokens` sampled tokens is interrupted (the engine appends
    its interruption phrase, unsampled) and the answer may then take `max_answer_tokens`. An engine without an
    interruption phrase stops at `max_thinking_tokens + max_answer_tokens`: the completion is truncated.
    """

    max_thinking_tokens: int
    max_answer_tokens: int


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One prompt's G completions, asked for together: the unit of admission (method, PipelineRL-k).

    `group` is the admission number: unique in a run, growing in order of admission. It keys the randomness,
    together with the sample's index and the token's position, so what is sampled doesn't depend on what else
    is in flight.
    """

    group: int
    prompt_id: str
    prompt: tuple[int, ...]
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished completion of T tokens (sampled and injected; the prompt is not in it).

    `logprobs[t]` is the generator's log-probability of `tokens[t]` at the moment it was sampled, at
    temperature 1 and full support (0.0 where injected). `versions[t]` is the policy version that sampled it.
    `sampled[t]` is False for tokens of the interruption phrase: no loss, no denominator.
    """

    group: int
    prompt_id: str
    sample: int
    prompt: tuple[int, ...]
    tokens: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]
    versions: npt.NDArray[np.int64]
    sampled: npt.NDArray[np.bool_]
    finish: Literal["stop", "truncated"]
    interrupted: bool


class Engine(Protocol):
    """Continuous batching over a fixed number of slots, driven one decode step at a time."""

    policy_version: int

    @property
    def active(self) -> int:
        """Completions being decoded."""
        ...

    @property
    def queued(self) -> int:
        """Completions submitted and not yet in a slot."""
        ...

    def submit(self, groups: Sequence[GroupRequest]) -> None:
        """Queue groups, in order; slots are filled from the queue before the next decode step."""
        ...

    def step(self) -> list[Completion]:
        """Decode one token in every active slot; return what finished, ordered by (group, sample)."""
        ...

    def load_weights(self, weights: Mapping[str, Tensor], policy_version: int) -> None:
        """Take new weights between two decode steps; completions in flight go on with their old KV cache."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything in flight: queue, tokens, log-probs, versions and the KV cache (stale by design)."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, bit for bit."""
        ...
