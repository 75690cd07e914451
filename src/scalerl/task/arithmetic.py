"""The built-in task: chains of operations on a digit, evaluated from left to right modulo 10.

A prompt such as `3+4ax7b-2c` is the digit 3 and three labelled operations. The thinking goes from label to
label and writes the running value, tersely (`a7`) or with the operation (`a+47`); then `</think>`, the
answer's digit and the end token. The verifier looks at the answer alone, and demands the whole form.

Most operations are easy: `+`, `-`, `x` and a small operand, 150 cases in all. One in thirty is hard: `*27`
multiplies by 2 and adds 7, a thousand cases, each met rarely. The easy ones are learned soon, the hard ones
go on improving slowly: they hold a run's ceiling below 1, and a better recipe moves it.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scalerl.errors import UserError
from scalerl.task.protocol import Example, Judgement, Task
from scalerl.task.tokenizer import CLOSE_THINKING, END, OPEN_THINKING, PAD, TIME_UP, SymbolTokenizer

OPERATORS = "+-x"
OPERANDS = range(1, 6)
HARD_OPERATOR = "*"
HARD_OPERANDS = range(100)
HARD_SHARE = 0.035
LABELS = "abcdefghijkl"
SYMBOLS = (
    PAD,
    END,
    OPEN_THINKING,
    CLOSE_THINKING,
    TIME_UP,
    *"0123456789",
    *OPERATORS,
    HARD_OPERATOR,
    "=",
    *LABELS,
)
_COMPLETION = re.compile(rf"[^<>]*{CLOSE_THINKING}(\d){END}")


class Operation(NamedTuple):
    """One labelled operation of a chain."""

    operator: str
    operand: int

    @property
    def text(self) -> str:
        """The operation as prompts write it: `+4`, `*07`."""
        digits = f"{self.operand:02d}" if self.operator == HARD_OPERATOR else str(self.operand)
        return self.operator + digits


@dataclass(frozen=True)
class Chain:
    """A starting digit and the operations applied to it in turn."""

    start: int
    operations: tuple[Operation, ...]

    @property
    def text(self) -> str:
        """The prompt: `3+4ax7b-2c`."""
        steps = zip(self.operations, LABELS, strict=False)
        return str(self.start) + "".join(f"{o.text}{label}" for o, label in steps)

    @property
    def answer(self) -> int:
        """The last running value."""
        value = self.start
        for operation in self.operations:
            value = apply(value, operation)
        return value


def apply(value: int, operation: Operation) -> int:
    """Return `value operator operand` modulo 10; `*` multiplies by the tens and adds the ones."""
    operator, operand = operation
    if operator == "+":
        return (value + operand) % 10
    if operator == "-":
        return (value - operand) % 10
    if operator == "x":
        return (value * operand) % 10
    return (value * (operand // 10) + operand) % 10


def draw_chain(rng: random.Random, min_operations: int, max_operations: int) -> Chain:
    """Draw a chain whose number of operations is uniform between the two bounds."""
    count = rng.randint(min_operations, max_operations)
    operations = tuple(_draw_operation(rng) for _ in range(count))
    return Chain(rng.randrange(10), operations)


def _draw_operation(rng: random.Random) -> Operation:
    if rng.random() < HARD_SHARE:
        return Operation(HARD_OPERATOR, rng.choice(HARD_OPERANDS))
    return Operation(rng.choice(OPERATORS), rng.choice(OPERANDS))


def prompt_id(text: str) -> str:
    """Return a stable name of a prompt: the hash of its text without spaces."""
    return hashlib.blake2b("".join(text.split()).encode(), digest_size=8).hexdigest()


def verify_arithmetic(examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
    """Judge completions: the form must be whole (`...</think>`, a digit, the end), the digit right."""
    judgements: list[Judgement | None] = []
    for example, completion in zip(examples, completions, strict=True):
        form = _COMPLETION.fullmatch(completion)
        passed = form is not None and form.group(1) == example.answer
        judgements.append(Judgement(passed, 1.0 if passed else -1.0))
    return judgements


def arithmetic_tokenizer() -> SymbolTokenizer:
    """Return the task's tokenizer (32 symbols)."""
    return SymbolTokenizer(SYMBOLS)


def arithmetic_task(
    *,
    train_prompts: int = 13_824,
    held_out_prompts: int = 320,
    min_operations: int = 2,
    max_operations: int = 8,
    seed: int = 0,
) -> Task:
    """Draw distinct prompts; `held_out_prompts` of them, at random, are held out, the rest are trained on.

    All are drawn before any is held out: there are few short chains, and distinct ones get rarer as more are
    drawn, so the first prompts drawn would be shorter than the rest. Chains of one operation are left out of
    the default for the same reason: 150 easy ones in all.

    `seed` names the data set, not the run: a study's runs share it. Raises UserError for impossible numbers.
    """
    if not 1 <= min_operations <= max_operations <= len(LABELS):
        raise UserError(
            f"task.min_operations={min_operations}, task.max_operations={max_operations}: "
            f"need 1 <= min_operations <= max_operations <= {len(LABELS)}"
        )
    if train_prompts < 1 or held_out_prompts < 1:
        raise UserError(
            f"task.train_prompts={train_prompts}, task.held_out_prompts={held_out_prompts}: at least 1 each"
        )
    rng = random.Random(f"arithmetic {seed}")
    found: dict[str, Example] = {}
    misses = 0
    while len(found) < train_prompts + held_out_prompts:
        chain = draw_chain(rng, min_operations, max_operations)
        text = chain.text
        misses = misses + 1 if text in found else 0
        if misses > 10_000:
            raise UserError(
                f"task: there aren't {train_prompts + held_out_prompts} distinct chains of {min_operations} "
                f"to {max_operations} operations; ask for fewer prompts or more operations"
            )
        if not misses:
            found[text] = Example(prompt_id(text), text, str(chain.answer), "arithmetic")
    examples = list(found.values())
    rng.shuffle(examples)
    return Task(
        "arithmetic",
        tuple(examples[held_out_prompts:]),
        tuple(examples[:held_out_prompts]),
        verify_arithmetic,
    )
