"""Procedural tasks of reasoning-gym, with its own scorers run in killable processes."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from scalerl.errors import UserError
from scalerl.task.answer import after_thinking, last_boxed, strip_end_marks
from scalerl.task.pool import KillablePool
from scalerl.task.protocol import Example, Judgement
from scalerl.task.reward import Reward
from scalerl.task.split import prompt_id

INSTRUCTION = "\n\nGive your final answer between <answer> and </answer>."
_THIS = "scalerl.task.procedural"
_LONGEST_ANSWER = 20_000  # characters; some tasks answer with whole grids
_FULL_SCORE = 1.0 - 1e-9


def answer_text(completion: str, *, must_close_thinking: bool = False) -> str | None:
    """The answer in the last <answer> tags after the thinking, else in the last box, else the whole text
    there.
    """
    text = after_thinking(strip_end_marks(completion), must_close=must_close_thinking)
    if text is None:
        return None
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    if start >= 0:
        return text[start + len("<answer>") : end].strip()
    boxed = last_boxed(text)
    return boxed if boxed is not None else text.strip()


@lru_cache(maxsize=16)
def _dataset(name: str, options: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of a dependency's, on import
        import reasoning_gym
    return reasoning_gym.create_dataset(name, **orjson.loads(options))


def score(name: str, options: bytes, answer: str, entry: dict[str, Any]) -> float:
    """Score one answer by the task's own scorer (in a pool worker)."""
    return float(_dataset(name, options).score_answer(answer, entry))


def procedural_examples(
    name: str, count: int, options: Mapping[str, Any], *, seed: int, instruction: str | None
) -> tuple[Example, ...]:
    """Draw up to `count` distinct examples; raises UserError for an unknown task or option."""
    if importlib.util.find_spec("reasoning_gym") is None:
        raise UserError("reasoning_gym tasks need the package reasoning-gym: pip install 'scalerl[task]'")
    if {"size", "seed"} & set(options):
        raise UserError(
            "task: options: 'size' and 'seed' are set by train_prompts, held_out_prompts and seed"
        )
    dataset = _checked_dataset(name, {**options, "size": count, "seed": seed})
    text = INSTRUCTION if instruction is None else instruction
    found: dict[str, Example] = {}
    for index in range(count):
        entry = dataset[index]
        payload = {"entry": entry, "problem": entry["question"]}
        example = Example(
            prompt_id(entry["question"]), entry["question"] + text, str(entry["answer"]), name, payload
        )
        found.setdefault(example.id, example)
    return tuple(found.values())


def _checked_dataset(name: str, options: Mapping[str, Any]) -> Any:
    try:
        return _dataset(name, orjson.dumps(options))
    except ValueError as error:
        from reasoning_gym.factory import DATASETS

        if name in DATASETS:
            raise UserError(f"task: reasoning_gym {name}: {error}") from None
        raise UserError(
            f"task: name: no reasoning_gym task {name!r}; there are {', '.join(sorted(DATASETS))}"
        ) from None
    except (TypeError, AssertionError) as error:
        raise UserError(f"task: options of reasoning_gym {name}: {error}") from None


class ProceduralVerifier:
    """Passed where the task's own scorer gives the full score (partial credit off)."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        reward: Reward = Reward(),
        limit_seconds: float = 5.0,
        workers: int | None = None,
        must_close_thinking: bool = False,
    ) -> None:
        self.name = name
        self.options = orjson.dumps({**options, "size": 1, "seed": 0})
        self.reward = reward
        self.must_close_thinking = must_close_thinking
        self.pool = KillablePool(
            workers=workers, limit_seconds=limit_seconds, preload=(_THIS, "reasoning_gym"), guarded=True
        )

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Score each completion's answer against `example.payload["entry"]`."""
        answers = [answer_text(text, must_close_thinking=self.must_close_thinking) for text in completions]
        verdicts: list[bool | None] = [False] * len(answers)
        asked: dict[tuple[str, str], list[int]] = {}
        for index, (example, answer) in enumerate(zip(examples, answers, strict=True)):
            if answer and len(answer) <= _LONGEST_ANSWER:
                asked.setdefault((example.id, answer), []).append(index)
        entries = [examples[indices[0]].payload["entry"] for indices in asked.values()]
        jobs = [
            (f"{_THIS}:score", (self.name, self.options, answer, entry))
            for (_, answer), entry in zip(asked, entries, strict=True)
        ]
        for indices, outcome in zip(asked.values(), self.pool.map(jobs), strict=True):
            for index in indices:
                verdicts[index] = None if outcome.value is None else outcome.value >= _FULL_SCORE
        return [None if verdict is None else self.reward.judge(verdict) for verdict in verdicts]
