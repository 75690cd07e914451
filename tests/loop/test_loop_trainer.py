"""A trainer step: completions without an advantage cost no backward pass and change nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_run import write_model

from scalerl.generate.protocol import Completion
from scalerl.loop.scored import ScoredGroup
from scalerl.loop.trainer import Trainer
from scalerl.policy.load import load_policy
from scalerl.recipe.axes import ReferenceKl
from scalerl.recipe.load import load_recipe


def grpo():
    return load_recipe("deepseek_grpo").scaled_to(prompts_per_step=3, generations_per_prompt=4)


def group(number: int, passed: list[bool], rng: np.random.Generator) -> ScoredGroup:
    completions = []
    prompt = tuple(rng.integers(5, 20, size=rng.integers(2, 9)).tolist())
    for sample in range(len(passed)):
        length = int(rng.integers(1, 12))
        completions.append(
            Completion(
                group=number,
                prompt_id=f"p{number}",
                sample=sample,
                prompt=prompt,
                tokens=rng.integers(5, 20, size=length),
                logprobs=rng.normal(-2.5, 0.3, size=length).astype(np.float32),
                versions=np.zeros(length, dtype=np.int64),
                sampled=np.arange(length) != 3,
                finish="stop",
                interrupted=False,
            )
        )
    return ScoredGroup(number, f"p{number}", completions, passed, [1.0 if p else -1.0 for p in passed])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def trainers(model, recipe):
    """A trainer as it is, and one that takes gradients of everything."""
    short, whole = (Trainer(load_policy(model), recipe, micro_batch_tokens=40) for _ in range(2))
    assert short.objective.gradient_needs_advantage
    whole.objective = dataclasses.replace(whole.objective, gradient_needs_advantage=False)
    return short, whole


@settings(max_examples=15, deadline=None)
@given(
    outcomes=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_leaving_out_what_has_no_advantage_changes_nothing(model, outcomes, seed):
    short, whole = trainers(model, grpo())
    for step in range(2):
        rng = np.random.default_rng((seed, step))
        groups = [group(i, passed, rng) for i, passed in enumerate(outcomes)]
        one, other = short.step(groups), whole.step(groups)
        assert (one.tokens_forwarded, one.tokens_trained) == (other.tokens_forwarded, other.tokens_trained)
        assert one.metrics == pytest.approx(other.metrics, rel=1e-4, abs=1e-5)
    theirs = whole.policy.weights()
    for name, weight in short.policy.weights().items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-4, atol=1e-6)


def test_a_step_without_any_advantage_still_goes_on_by_momentum(model):
    trainer, _ = trainers(model, grpo())
    rng = np.random.default_rng(0)
    trainer.step([group(i, [True, False, True, False], rng) for i in range(3)])
    before = {name: weight.clone() for name, weight in trainer.policy.weights().items()}
    report = trainer.step([group(i, [True] * 4, rng) for i in range(3)])
    assert report.metrics["grad_norm"] == 0.0
    assert report.metrics["loss"] == 0.0
    assert report.metrics["skipped"] == 0
    assert any(not weight.equal(before[name]) for name, weight in trainer.policy.weights().items())


def test_which_completions_learn(model):
    trainer, _ = trainers(model, grpo())
    rng = np.random.default_rng(1)
    groups = [group(0, [True] * 4, rng), group(1, [True, False, False, False], rng)]
    prepared = trainer.objective.prepare(groups)
    assert trainer.objective.learns(prepared).tolist() == [False] * 4 + [True] * 4
    tokens = sum(len(c.tokens) for g in groups for c in g.completions)
    assert prepared.tokens_forwarded == tokens + sum(len(g.completions[0].prompt) for g in groups)


def test_with_a_kl_term_all_learn(model):
    recipe = grpo().replace(kl=ReferenceKl(coefficient=0.1).model_dump())
    trainer = Trainer(load_policy(model), recipe, micro_batch_tokens=40)
    prepared = trainer.objective.prepare([group(0, [True] * 4, np.random.default_rng(2))])
    assert trainer.objective.learns(prepared).all()
