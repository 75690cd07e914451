"""Demonstrations for the warm start, from a teacher whose skill differs from entry to entry.

For every entry (operator, value, operand) of the operation tables the teacher is right with a probability of
its own; that sets where RL starts and how broad its rise is.

Steps are written tersely or with their operation, at random: thinking has a variable length, and a policy
that wants to finish a long chain within its budget must learn to be terse.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from scalerl.task.arithmetic import (
    HARD_OPERANDS,
    HARD_OPERATOR,
    LABELS,
    OPERANDS,
    OPERATORS,
    Chain,
    Operation,
    apply,
    draw_chain,
)
from scalerl.task.tokenizer import CLOSE_THINKING, END, OPEN_THINKING, TIME_UP


@dataclass(frozen=True)
class TeacherSettings:
    """How good the teacher is, on the logit scale, and how it writes."""

    mean_skill: float = 0.7
    skill_spread: float = 0.6
    favourite_mistake: float = 0.7
    verbosity_power: float = 2.0
    interrupted_share: float = 0.05


class Teacher:
    """Draws demonstrations; its tables are fixed by `seed`."""

    def __init__(self, settings: TeacherSettings, seed: int) -> None:
        self.settings = settings
        tables = random.Random(f"teacher's tables {seed}")
        entries = [(o, v, d) for o in OPERATORS for v in range(10) for d in OPERANDS]
        entries += [(HARD_OPERATOR, v, d) for v in range(10) for d in HARD_OPERANDS]
        skills = {e: tables.gauss(settings.mean_skill, settings.skill_spread) for e in entries}
        self._right = {e: _sigmoid(skill) for e, skill in skills.items()}
        self._mistake = {e: tables.randrange(1, 10) for e in entries}

    def value(self, rng: random.Random, value: int, operation: Operation) -> int:
        """Return the teacher's result of one operation: right, its favourite mistake, or any digit."""
        entry = (operation.operator, value, operation.operand)
        right = apply(value, operation)
        if rng.random() < self._right[entry]:
            return right
        if rng.random() < self.settings.favourite_mistake:
            return (right + self._mistake[entry]) % 10
        return rng.randrange(10)

    def demonstrate(self, rng: random.Random, chain: Chain) -> tuple[str, str, str]:
        """Return (prompt, injected, completion); `injected` is what an interruption added, or ''."""
        verbosity = rng.random() ** self.settings.verbosity_power
        value, steps = chain.start, []
        for operation, label in zip(chain.operations, LABELS, strict=False):
            verbose = rng.random() < verbosity
            result = self.value(rng, value, operation)
            written = operation.text if verbose else ""
            steps.append(f"{label}{written}{result}")
            value = result
        prompt = f"{chain.text}={OPEN_THINKING}"
        answer = f"{value}{END}"
        if rng.random() < self.settings.interrupted_share:
            thinking = "".join(steps)
            cut = rng.randrange(len(thinking) + 1)
            return prompt, thinking[:cut] + TIME_UP + CLOSE_THINKING, answer
        return prompt, "", "".join(steps) + CLOSE_THINKING + answer

    def demonstrations(
        self, rng: random.Random, min_operations: int, max_operations: int
    ) -> Iterator[tuple[str, str, str]]:
        """Yield demonstrations of fresh chains without end."""
        while True:
            yield self.demonstrate(rng, draw_chain(rng, min_operations, max_operations))


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))
