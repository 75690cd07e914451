"""A reward function of the user's, `file.py:function`, in place of a verifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalerl.errors import UserError
from scalerl.recipe.axes import UserFunction
from scalerl.recipe.custom import load_function
from scalerl.task.answer import strip_end_marks
from scalerl.task.pool import KillablePool
from scalerl.task.protocol import Example, Judgement

_THIS = "scalerl.task.custom_reward"


def call(path: str, completion: str, example: Example) -> float | bool:
    """Call the user's function (in a pool worker)."""
    value = load_function(UserFunction(kind="custom", path=path))(completion, example)
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{path} returned a {type(value).__name__}, not a number")
    return value if isinstance(value, bool) else float(value)


class CustomRewardVerifier:
    """Judges by `function(completion, example) -> float | bool`: the reward; above 0 (or True) counts as
    passed.

    True and False stand for +1 and -1. A call that raises or exceeds `limit_seconds` is a failed
    verification. The function sees the completion without its end token.
    """

    def __init__(self, path: str, *, limit_seconds: float = 5.0, workers: int | None = None) -> None:
        file, colon, name = path.rpartition(":")
        if not colon or not name.isidentifier():
            raise UserError(f"task: reward_function {path!r}: give file.py:function")
        self.path = f"{Path(file).resolve()}:{name}"
        load_function(
            UserFunction(kind="custom", path=self.path)
        )  # a mistake shows now, not at the first batch
        self.pool = KillablePool(workers=workers, limit_seconds=limit_seconds, preload=(_THIS,))

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Ask the function about each completion."""
        jobs = [
            (f"{_THIS}:call", (self.path, strip_end_marks(text), example))
            for example, text in zip(examples, completions, strict=True)
        ]
        return [
            None if outcome.value is None else _judgement(outcome.value) for outcome in self.pool.map(jobs)
        ]


def _judgement(value: float | bool) -> Judgement:
    if isinstance(value, bool):
        return Judgement(value, 1.0 if value else -1.0)
    return Judgement(value > 0, value)
