"""Statistics by hand-computed numbers, by simulation and by brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.task import evaluation as ev


def counts(passed, sampled):
    return ev.PromptCounts(
        tuple(f"p{i}" for i in range(len(passed))), np.array(passed, np.int64), np.array(sampled, np.int64)
    )


def test_mean_weighs_prompts_equally():
    assert ev.mean_at_k(counts([1, 4], [1, 8])) == pytest.approx(0.75)


def test_unjudged_prompt_leaves_the_mean():
    assert ev.mean_at_k(counts([1, 0], [2, 0])) == pytest.approx(0.5)
    assert math.isnan(ev.mean_at_k(counts([0], [0])))


def test_sampling_stderr_by_hand():
    # shares 1/4 and 1/2 of 4: variances 0.1875/3 and 0.25/3; sqrt(0.14583) / 2
    assert ev.sampling_stderr(counts([1, 2], [4, 4])) == pytest.approx(math.sqrt(0.4375 / 3) / 2)
    assert ev.sampling_stderr(counts([4, 0], [4, 4])) == 0.0
    assert ev.sampling_stderr(counts([1, 0], [1, 1])) is None


def test_prompt_stderr_by_hand():
    assert ev.prompt_stderr(counts([1, 2], [4, 4])) == pytest.approx(0.125)
    assert ev.prompt_stderr(counts([1], [4])) is None


def test_standard_errors_match_simulation():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 1, size=100)
    fixed, fresh, sampling, prompts = [], [], [], []
    for _ in range(1000):
        x = rng.binomial(8, p)
        fixed.append(ev.mean_at_k(counts(x, [8] * 100)))
        sampling.append(ev.sampling_stderr(counts(x, [8] * 100)))
        y = rng.binomial(8, rng.beta(1, 1, size=100))
        fresh.append(ev.mean_at_k(counts(y, [8] * 100)))
        prompts.append(ev.prompt_stderr(counts(y, [8] * 100)))
    assert np.mean(sampling) == pytest.approx(np.std(fixed), rel=0.07)
    assert np.mean(prompts) == pytest.approx(np.std(fresh), rel=0.07)
    assert np.mean(prompts) > 1.5 * np.mean(sampling)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_equals_enumeration(ncK):
    n, c, k = ncK
    outcomes = [1] * c + [0] * (n - c)
    draws = [max(draw) for draw in itertools.combinations(outcomes, k)]
    assert ev.pass_at_k_of_prompt(c, n, k) == pytest.approx(np.mean(draws))


def test_pass_at_k_needs_k_samples():
    with pytest.raises(ValueError, match="pass@5"):
        ev.pass_at_k_of_prompt(1, 4, 5)
    assert ev.pass_at_k(counts([1], [4]), 5) is None
    found = ev.pass_at_k(counts([1, 1], [4, 2]), 4)
    assert (found.value, found.prompts) == (1.0, 1)


def test_counting_keeps_order_and_failed_verifications_out():
    got = ev.count_outcomes([("b", True), ("a", None), ("b", False), ("b", None)])
    assert got.prompt_ids == ("b", "a")
    assert got.passed.tolist() == [1, 0]
    assert got.sampled.tolist() == [2, 0]


def test_counts_refuse_nonsense():
    with pytest.raises(ValueError, match="passed"):
        counts([3], [2])
    with pytest.raises(ValueError, match="one entry"):
        ev.PromptCounts(("a",), np.array([1, 2]), np.array([2, 2]))


def test_domains_apart():
    parts = ev.split_by_domain(counts([1, 2, 3], [4, 4, 4]), {"p0": "math", "p1": "code", "p2": "math"})
    assert list(parts) == ["math", "code"]
    assert parts["math"].passed.tolist() == [1, 3]
    assert parts["code"].prompt_ids == ("p1",)


def test_summary_lists_ks():
    assert ev.powers_of_two(16) == (1, 2, 4, 8, 16)
    assert ev.powers_of_two(6) == (1, 2, 4, 6)
    summary = ev.summarise(counts([0, 4], [4, 4]), ks=ev.powers_of_two(4))
    assert [p.k for p in summary.pass_at_k] == [1, 2, 4]
    assert all(p.value == 0.5 for p in summary.pass_at_k)
    assert (summary.prompts, summary.samples) == (2, 8)
