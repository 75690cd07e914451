"""The smaller pure functions, by hand."""

import numpy as np
import pytest
import torch
from hand_made_batch import flat_logp, groups, recipe
from hypothesis import given
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.loop.objective import Objective
from scalerl.objective.advantage import group_advantages
from scalerl.objective.diagnostics import ratio_diagnostics
from scalerl.objective.kl import kl_estimate
from scalerl.objective.length_penalty import length_penalty
from scalerl.objective.survivors import is_zero_variance, survivors
from scalerl.recipe import load_recipe


def test_length_penalty_of_eq_9():
    lengths = np.array([100, 12288, 13312, 14336, 20000, 13312])
    passed = np.array([True, True, True, True, True, False])
    penalty = length_penalty(lengths, passed, max_tokens=14336, cache_tokens=2048)
    np.testing.assert_allclose(penalty, [0, 0, -0.5, -1, -1, 0])


def test_zero_variance_is_judged_before_the_length_penalty():
    made, _ = groups()  # group 2: both right, one of them penalised
    overrides = ["length_control=length_penalty", "length_control.cache_share=0.25"]
    kept = Objective.from_recipe(recipe(*overrides, "batch=zero_variance_dropped")).prepare(made)
    assert kept.metrics["zero_variance_prompts"] == 1
    assert kept.metrics["kept_prompts"] == 3
    everything = Objective.from_recipe(recipe(*overrides, "advantage=none")).prepare(made)
    assert everything.metrics["kept_prompts"] == 4
    # 14 of 16 tokens, cache 4: (16 - 14) / 4 - 1 = -0.5; mean of 1 and 0.5 is 0.75
    np.testing.assert_allclose(everything.advantage[6:8], [0.25, -0.25])


def test_survivors():
    assert survivors([False, True, False, True], [True, True, None, None]).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert is_zero_variance([True, True])
    assert is_zero_variance([])
    assert not is_zero_variance([True, False])


def test_equal_rewards_have_no_advantage_even_with_eps_0():
    reward, prompt = torch.ones(4, dtype=torch.float64), torch.tensor([0, 0, 1, 1])
    for normalisation in ("prompt", "batch", "none"):
        kept = torch.ones(4, dtype=torch.bool)
        advantage = group_advantages(reward, prompt, kept, normalisation=normalisation, eps=0.0)
        assert advantage.tolist() == [0, 0, 0, 0]


@given(st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=20))
def test_advantages_are_centred_on_each_prompt(rewards):
    reward = torch.tensor(rewards, dtype=torch.float64)
    prompt = torch.arange(len(rewards)) % 2
    for normalisation in ("prompt", "batch", "none"):
        advantage = group_advantages(reward, prompt, prompt >= 0, normalisation=normalisation)
        for p in (0, 1):
            assert abs(float(advantage[prompt == p].sum())) < 1e-9


def test_batch_normalisation_over_kept_or_all():
    reward = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    prompt, kept = torch.tensor([0, 0, 1, 1]), torch.tensor([True, True, False, False])
    over_kept = group_advantages(reward, prompt, kept, normalisation="batch", over="kept", eps=0.0)
    over_all = group_advantages(reward, prompt, kept, normalisation="batch", over="all", eps=0.0)
    assert over_kept.tolist() == [1, -1, 0, 0]
    np.testing.assert_allclose(over_all, [2**0.5, -(2**0.5), 0, 0])


def test_kl_estimators_by_hand_and_in_expectation():
    logp, other = torch.tensor([-1.0]), torch.tensor([-1.5])
    assert kl_estimate(logp, other, "k1").item() == pytest.approx(0.5)
    assert kl_estimate(logp, other, "k2").item() == pytest.approx(0.125)
    assert kl_estimate(logp, other, "k3").item() == pytest.approx(np.exp(-0.5) - 1 + 0.5)
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    exact = (p * (p / q).log()).sum()
    for estimator in ("k1", "k3"):  # unbiased
        torch.testing.assert_close((p * kl_estimate(p.log(), q.log(), estimator)).sum(), exact)
    # k2 as a loss: on-policy its mean gradient is the KL's
    logits = torch.randn(3, dtype=torch.float64, requires_grad=True)
    log_p = logits.log_softmax(0)
    (true,) = torch.autograd.grad((log_p.exp() * (log_p - q.log())).sum(), logits, retain_graph=True)
    (k2,) = torch.autograd.grad((log_p.exp().detach() * kl_estimate(log_p, q.log(), "k2")).sum(), logits)
    torch.testing.assert_close(k2, true)


def test_kl_term_by_hand_and_off_by_default():
    made, trainer = groups()
    plain = Objective.from_recipe(recipe())
    with_kl = Objective.from_recipe(recipe("kl=reference", "kl.coefficient=0.5", "kl.estimator=k2"))
    assert not plain.needs_reference
    assert with_kl.needs_reference
    prepared = plain.prepare(made)
    indices = range(len(prepared.weight))
    logp = flat_logp(prepared, trainer, indices)
    reference = logp.detach() + 0.2
    difference = with_kl.token_loss_sum(prepared, indices, logp, reference) - plain.token_loss_sum(
        prepared, indices, logp
    )
    assert difference.item() == pytest.approx(0.5 * 0.2**2 / 2)  # the weights of a mean add up to 1
    with pytest.raises(ValueError, match="reference_logp is wanted"):
        with_kl.token_loss_sum(prepared, indices, logp)


def test_ratio_diagnostics_by_hand():
    behaviour = torch.zeros(4, dtype=torch.float64)
    logp = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64).log()
    step = ratio_diagnostics(logp, behaviour)
    assert (step["ratio_min"], step["ratio_mean"], step["ratio_max"]) == pytest.approx((0.5, 1.875, 4))
    assert step["ratio_q50"] == pytest.approx(1.5)
    assert step["ratio_q90"] == pytest.approx(2 + 0.7 * 2)
    assert step["ess_share"] == pytest.approx(7.5**2 / (0.25 + 1 + 4 + 16) / 4)
    # KL(gen || train) by k3 with r = pi_train / pi_gen: mean(r - 1 - log r); log(0.5 * 1 * 2 * 4) = log 4
    assert step["kl_generator_trainer"] == pytest.approx(1.875 - 1 - np.log(4) / 4)
    on_policy = ratio_diagnostics(behaviour, behaviour)
    assert (on_policy["kl_generator_trainer"], on_policy["ess_share"]) == (0, 1)
    huge = ratio_diagnostics(torch.tensor([400.0, 0.0]), torch.zeros(2))
    assert huge["ess_share"] == pytest.approx(0.5)
    assert ratio_diagnostics(logp[:0], behaviour[:0]) == {}


def test_share_at_a_bound_counts_only_where_the_gradient_is_lost():
    made, _ = groups()
    objective = Objective.from_recipe(recipe("loss=clip", "advantage=none"))
    prepared = objective.prepare(made)
    indices = range(len(prepared.weight))
    logp = prepared.behaviour_logp + 1.0  # every ratio is e: above the bound, bites where A > 0
    step = objective.step_metrics(prepared, indices, logp, torch.full_like(logp, 0.7))
    positive = float(prepared.lengths[prepared.advantage > 0].sum() / prepared.lengths.sum())
    assert step["clip_high_share"] == pytest.approx(positive)
    assert step["clip_low_share"] == 0
    assert step["entropy"] == pytest.approx(0.7)
    assert step["kept_prompts"] == 4


def test_dynamic_sampling_counts_only_kept_groups_and_no_kept_group_is_an_empty_batch():
    made, _ = groups()
    dynamic = Objective.from_recipe(recipe("batch=dynamic_sampling"))
    assert [dynamic.counts_towards_batch(group) for group in made] == [True, True, False, True, False]
    dropped = Objective.from_recipe(recipe("batch=zero_variance_dropped"))
    assert all(dropped.counts_towards_batch(group) for group in made)
    for some in ([made[2], made[4]], []):
        empty = dropped.prepare(some)
        assert empty.completions == ()
        logp = torch.zeros(0, requires_grad=True)
        assert dropped.token_loss_sum(empty, [], logp).item() == 0
        assert "entropy" not in dropped.step_metrics(empty, [], logp, logp)


def test_mismatched_logp_is_named():
    made, _ = groups()
    objective = Objective.from_recipe(recipe())
    prepared = objective.prepare(made)
    with pytest.raises(ValueError, match="these completions have 3 sampled tokens"):
        objective.token_loss_sum(prepared, [0], torch.zeros(4))


USER_FILE = """
import numpy as np
from scalerl.objective.losses import clip

def my_loss(logp, behaviour_logp, advantage, completion, lengths):
    return clip(logp, behaviour_logp, advantage, completion, lengths, eps_low=0.2, eps_high=0.26)

def my_advantage(reward, prompt, kept):
    return reward * 2

def my_reward(passed, completions):
    return [1.0 if p else -len(c.tokens) / 10 for p, c in zip(passed, completions)]

def wrong(*arguments):
    return arguments[0].sum()
"""


def test_the_users_own_loss_advantage_and_reward(tmp_path):
    (tmp_path / "mine.py").write_text(USER_FILE)
    file = tmp_path / "recipe.yaml"
    file.write_text("from: base\nloss: mine.py:my_loss\n")
    made, trainer = groups()
    own, ours = Objective.from_recipe(load_recipe(file)), Objective.from_recipe(recipe())
    prepared = ours.prepare(made)
    indices = range(len(prepared.weight))
    logp = flat_logp(prepared, trainer, indices)
    assert (
        own.token_loss_sum(prepared, indices, logp).item()
        == ours.token_loss_sum(prepared, indices, logp).item()
    )
    assert "clip_high_share" not in own.step_metrics(prepared, indices, logp, logp)

    file.write_text("from: base\nadvantage: mine.py:my_advantage\nreward: mine.py:my_reward\n")
    other = Objective.from_recipe(load_recipe(file)).prepare(made)
    # group 0: right, wrong with 7 tokens (2 injected), right
    np.testing.assert_allclose(other.reward[:3], [1, -0.7, 1])
    np.testing.assert_allclose(other.advantage[:3], [2, -1.4, 2])

    file.write_text("from: base\nloss: mine.py:wrong\n")
    with pytest.raises(UserError, match=r"mine.py:wrong: returned shape \(\); one value a token is wanted"):
        Objective.from_recipe(load_recipe(file)).token_loss_sum(prepared, indices, logp)
