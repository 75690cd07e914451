"""The math verifier: final answer, quick matcher, then math-verify in killable processes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from scalerl.errors import UserError
from scalerl.task.answer import final_answer
from scalerl.task.match import quick_match
from scalerl.task.pool import KillablePool
from scalerl.task.protocol import Example, Judgement
from scalerl.task.reward import Reward

_WORKER = "scalerl.task.math_worker"


class MathVerifier:
    """Judges a completion by its final answer (after `</think>`; last boxed, else the last answer stated).

    `limit_seconds` is a hard wall-time limit for one symbolic comparison; one that exceeds it, or kills its
    worker, is a failed verification (None), not a wrong answer. Most answers never get there: `quick_match`
    decides them in this process. `must_close_thinking`: the prompt opens the thinking, so an answer needs a
    `</think>` before it.
    """

    def __init__(
        self,
        *,
        reward: Reward = Reward(),
        limit_seconds: float = 5.0,
        workers: int | None = None,
        must_close_thinking: bool = False,
        pool: KillablePool | None = None,
    ) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise UserError("math tasks need the package math-verify: pip install 'scalerl[task]'")
        self.reward = reward
        self.must_close_thinking = must_close_thinking
        self.pool = pool or KillablePool(
            workers=workers, limit_seconds=limit_seconds, preload=(_WORKER,), guarded=True
        )

    def __call__(self, examples: Sequence[Example], completions: Sequence[str]) -> list[Judgement | None]:
        """Judge `completions[i]` against `examples[i].answer`."""
        verdicts: list[bool | None] = []
        undecided: list[tuple[int, str, str]] = []
        for index, (example, completion) in enumerate(zip(examples, completions, strict=True)):
            answer = final_answer(completion, must_close_thinking=self.must_close_thinking)
            verdict = False if answer is None else quick_match(example.answer, answer)
            verdicts.append(verdict)
            if verdict is None and answer is not None:
                undecided.append((index, example.answer, answer))
        self._settle(undecided, verdicts)
        return [None if verdict is None else self.reward.judge(verdict) for verdict in verdicts]

    def _settle(self, undecided: Sequence[tuple[int, str, str]], verdicts: list[bool | None]) -> None:
        """Ask math-verify about each distinct pair once (a group's completions often agree); None stays
        None.
        """
        pairs = list(dict.fromkeys((gold, answer) for _, gold, answer in undecided))
        outcomes = self.pool.map([(f"{_WORKER}:equivalent", pair) for pair in pairs])
        values = {pair: outcome.value for pair, outcome in zip(pairs, outcomes, strict=True)}
        for index, gold, answer in undecided:
            verdicts[index] = values[gold, answer]

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()
