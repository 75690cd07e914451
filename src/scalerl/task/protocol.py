"""What a task is to the loop: examples, a verifier, and a way from text to tokens and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with what it takes to judge a completion of it.

    `id` is stable across runs (a hash of the normalised prompt); `payload` holds whatever else a verifier
    needs (tests of a program, say) and never reaches the model.
    """

    id: str
    prompt: str
    answer: str
    domain: str = "default"
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verifier's word on one completion: passed or not, and the reward that training sees (+1/-1)."""

    passed: bool
    reward: float


class Verifier(Protocol):
    """Judges a batch of completions (in any order of time, results in order of input).

    None in place of a judgement means that the verifier itself failed (timeout, crash): not a wrong answer
    (design.md, section 4).
    """

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Judge `completions[i]` (decoded text, thinking and end token included) against `examples[i]`."""
        ...


class Prompter(Protocol):
    """Turns examples into prompt tokens, completion tokens into text: a tokenizer and its chat template."""

    def encode(self, example: Example) -> tuple[int, ...]:
        """Return the prompt's tokens, up to where the model begins to think."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Return a completion's text, special tokens kept."""
        ...

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of plain text (an interruption phrase), special tokens recognised."""
        ...

    @property
    def end_token(self) -> int:
        """The token that ends a completion."""
        ...

    @property
    def close_thinking(self) -> tuple[int, ...]:
        """The tokens that close the thinking (`</think>`)."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """A training set and a held-out set of one distribution, with no prompt in both, and their verifier."""

    name: str
    train: tuple[Example, ...]
    held_out: tuple[Example, ...]
    verifier: Verifier
