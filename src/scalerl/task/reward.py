"""Rewards: +1 for a pass, -1 otherwise (method.md, section 2); no partial credit."""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.task.protocol import Judgement


@dataclass(frozen=True, slots=True)
class Reward:
    """The two rewards of a verifiable task."""

    correct: float = 1.0
    wrong: float = -1.0

    def judge(self, passed: bool) -> Judgement:
        """The judgement of a completion that passed or not."""
        return Judgement(passed, self.correct if passed else self.wrong)
