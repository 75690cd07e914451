"""The counter-based uniforms and the inverse CDF."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scalerl.errors import UserError
from scalerl.generate.randomness import mix, stream_keys, uniforms
from scalerl.generate.sampling import Sampling, by_inverse_cdf, draw


def grid(seed=0, groups=20, samples=20, positions=50):
    g, s, p = np.meshgrid(np.arange(groups), np.arange(samples), np.arange(positions), indexing="ij")
    keys = stream_keys(seed, g.ravel(), s.ravel())
    return uniforms(keys, p.ravel()).reshape(groups, samples, positions)


def test_splitmix64_known_value():
    # the first output of SplitMix64 started at 0 is the finaliser of the golden gamma
    assert mix(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0] == 0xE220A8397B1DCDAF


def test_uniform_over_every_key_word():
    u = grid()
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    for axis in range(3):
        means = u.mean(axis=tuple(other for other in range(3) if other != axis))
        z = (means - 0.5) / np.sqrt(1 / 12 / (u.size / len(means)))
        assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("lag", [1, 2, 7])
def test_neighbours_are_uncorrelated(axis, lag):
    u = np.moveaxis(grid(), axis, 0)
    a, b = u[:-lag].ravel(), u[lag:].ravel()
    assert abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(a.size) < 4.5
    counts = np.histogram2d(a, b, bins=8)[0].ravel()
    assert stats.chisquare(counts).pvalue > 1e-4


def test_seeds_and_swapped_keys_differ():
    assert not np.isin(grid(0), grid(1)).any()
    one, two = np.array([1]), np.array([2])
    assert uniforms(stream_keys(0, one, two), one) != uniforms(stream_keys(0, two, one), one)
    assert len(np.unique(grid(3))) == 20_000


def test_negative_and_large_seeds_are_fine():
    zero = np.array([0])
    values = [uniforms(stream_keys(seed, zero, zero), zero)[0] for seed in (-1, 2**63, 2**80 + 1, 0)]
    assert len(set(values)) == 4


@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(lambda w: sum(w) > 1e-6),
    u=st.floats(0, 1 - 2.0**-52),
)
def test_inverse_cdf_takes_the_first_token_above_u(weights, u):
    token = int(by_inverse_cdf(torch.tensor([weights]), torch.tensor([u], dtype=torch.float64))[0])
    cumulative = np.cumsum(np.array(weights, dtype=np.float32).astype(np.float64))
    assert weights[token] > 0
    assert cumulative[token] > u * cumulative[-1]
    assert token == 0 or cumulative[token - 1] <= u * cumulative[-1]


def test_the_extremes_never_reach_a_token_of_probability_zero():
    probabilities = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 2)
    extremes = torch.tensor([0.0, 1 - 2.0**-52], dtype=torch.float64)
    assert by_inverse_cdf(probabilities, extremes).tolist() == [1, 2]


def test_draw_reports_logprobs_at_temperature_one_whatever_the_sampling():
    logits = torch.tensor([[2.0, 1.0, 0.0]]).log()
    u = torch.tensor([0.99], dtype=torch.float64)
    for sampling, token in (
        (Sampling(), 1),
        (Sampling(temperature=0.0), 0),
        (Sampling(temperature=0.1), 0),  # (2/1)^10: all but 1/1025 on the first
        (Sampling(top_p=0.5), 0),
    ):
        tokens, logprobs = draw(logits, u, sampling)
        assert tokens.tolist() == [token]
        assert logprobs.item() == pytest.approx(np.log([2 / 3, 1 / 3][token]))


@pytest.mark.parametrize("fields", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_impossible_sampling_is_refused(fields):
    with pytest.raises(UserError, match=next(iter(fields))):
        Sampling(**fields)
