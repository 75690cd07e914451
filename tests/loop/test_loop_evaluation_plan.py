"""When a run evaluates."""

from __future__ import annotations

from scalerl.loop.config import EvaluationPlan


def due(plan: EvaluationPlan, steps: int) -> list[int]:
    return [step for step in range(steps + 1) if plan.due(step)]


def test_evaluations_at_even_distances():
    assert due(EvaluationPlan(every_steps=4), 13) == [0, 4, 8, 12]


def test_denser_evaluations_up_to_a_step():
    plan = EvaluationPlan(every_steps=8, early_every_steps=2, early_until_step=7)
    assert due(plan, 25) == [0, 2, 4, 6, 8, 16, 24]


def test_an_early_part_without_its_own_distance_is_like_the_rest():
    assert due(EvaluationPlan(every_steps=5, early_until_step=10), 16) == [0, 5, 10, 15]
