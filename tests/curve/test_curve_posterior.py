import numpy as np
import pytest

from scalerl.curve.coverage import Scenario, measure, pool, scenarios, simulate
from scalerl.curve.identify import ar1_noise, extended
from scalerl.curve.integrate import posterior
from scalerl.curve.noise import Noise, log_scale_integral, precision
from scalerl.curve.sigmoid import sigmoid
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares


@pytest.mark.parametrize("spacing", [np.ones(9), np.linspace(0.5, 1.5, 9)])
def test_tridiagonal_precision_is_the_inverse_correlation(spacing):
    compute = np.append(1.0, 1.0 + np.cumsum(spacing))
    operators = precision(compute, Noise())
    x = np.random.default_rng(0).standard_normal((2, 3, 10))
    gram = operators.gram(x.swapaxes(0, 1), x @ x.transpose(0, 2, 1))
    for k, r in enumerate(operators.rho):
        distance = np.abs(compute[:, None] - compute) / np.median(spacing)
        if r < 0 and np.ptp(spacing) > 0:
            continue  # no power of a negative number: neighbours keep its sign, and no closed form is claimed
        correlation = r**distance if r else np.eye(10)
        np.testing.assert_allclose(
            gram[..., k], x @ np.linalg.inv(correlation) @ x.transpose(0, 2, 1), rtol=1e-9
        )
        assert operators.log_det[k] == pytest.approx(-np.linalg.slogdet(correlation)[1])


def test_scale_integral_against_quadrature():
    sse, degrees, floor = 3.0, 7, 0.5
    sigma = np.linspace(floor, 200, 200_001)
    integrand = sigma ** -(degrees + 1.0) * np.exp(-sse / (2 * sigma**2))
    free = np.linspace(1e-3, 200, 200_001)
    whole = free ** -(degrees + 1.0) * np.exp(-sse / (2 * free**2))
    ratio = np.trapezoid(integrand, sigma) / np.trapezoid(whole, free)
    measured = log_scale_integral(np.array(sse), degrees, floor) - log_scale_integral(
        np.array(sse), degrees, 0.0
    )
    assert np.exp(measured) == pytest.approx(ratio, rel=1e-3)


def test_well_identified_interval_equals_the_linear_one():
    """White noise, full window: the posterior of A is Student's t with the linearised fit's error."""
    from scipy.stats import t as student

    law = TABLE_1["ScaleRL"]
    compute = np.linspace(1500, 50_000, 60)
    y = sigmoid(compute, law) + 0.003 * np.random.default_rng(1).standard_normal((20, 60))
    design = Design(np.log(compute), np.ones(60))
    found = least_squares(design, y, np.full(20, 0.3))
    post = posterior(compute, design, y, found, Noise("white"))
    for i in range(20):
        B, mid = np.exp(found.log_B[i]), found.log_mid[i]
        g = 1 / (1 + np.exp(-B * (np.log(compute) - mid)))
        slope = (found.A[i] - 0.3) * g * (1 - g)
        jacobian = np.stack([g, slope * (np.log(compute) - mid), -slope * B], 1)
        sd = np.sqrt(found.sse[i] / 57 * np.linalg.inv(jacobian.T @ jacobian)[0, 0])
        half = student.ppf(0.95, 57) * sd
        assert post.quantile_A(0.05)[i] == pytest.approx(found.A[i] - half, abs=0.12 * half)
        assert post.quantile_A(0.95)[i] == pytest.approx(found.A[i] + half, abs=0.12 * half)
    assert post.cdf_A(post.quantile_A(0.05)) == pytest.approx(0.05, abs=1e-4)
    assert post.mass.sum((-1, -2)) == pytest.approx(1.0)


def test_quantiles_invert_the_distribution_functions():
    law = TABLE_1["Scout MoE"]
    compute = np.linspace(1500, 25_000, 40)
    y = sigmoid(compute, law)[None] + ar1_noise(np.random.default_rng(2), (1, 40), 0.005, 0.5)
    design = Design(np.log(compute), np.ones(40))
    post = posterior(compute, design, y, least_squares(design, y, np.array([0.3])), Noise())
    for quantity in (post.B(), post.log_mid(), post.rate_at(np.log(1e5)), post.log_compute_at(0.5)):
        for level in (0.05, 0.5, 0.95):
            assert post.cdf(*quantity, post.quantile(*quantity, level))[0, 0] == pytest.approx(
                level, abs=1e-5
            )
    draws = post.draw(4000, np.random.default_rng(3))
    assert np.quantile(draws[0], 0.05) == pytest.approx(post.quantile_A(0.05)[0], abs=0.003)
    assert np.quantile(np.log(draws[2]), 0.95) == pytest.approx(
        post.quantile(*post.log_mid(), 0.95)[0], abs=0.01
    )


def test_there_are_480_scenarios_and_rounds_add_up():
    assert len(set(scenarios())) == 480
    scenario = Scenario("code", True, 40, 8000.0, "white 0.003")
    whole = measure(scenario, 250, seed=1)
    parts = [measure(scenario, 125, seed=1, first_batch=k) for k in (0, 1)]
    assert pool(parts).covers_A == pytest.approx(whole.covers_A)
    assert pool(parts).mean_error_A == pytest.approx(whole.mean_error_A)


def test_simulated_noise_is_what_the_scenario_says():
    rng = np.random.default_rng(0)
    _, y = simulate(Scenario("ScaleRL", True, 75, 8000.0, "AR(1) 0.005"), 2000, rng)
    noise = y - y.mean(0)
    assert noise.std() == pytest.approx(0.005, rel=0.05)
    assert np.mean(noise[:, 1:] * noise[:, :-1]) / noise.var() == pytest.approx(0.7, abs=0.02)


# A quick version of `scalerl bench curve`: the hardest scenarios at 250 curves; 0.83 is 87% less two
# standard errors.
HARD = [
    Scenario("length 32k", True, 40, 8000.0, "AR(1) 0.005"),
    Scenario("code", True, 40, 50_000.0, "AR(1) 0.005"),
    Scenario("code", False, 40, 8000.0, "AR(1) 0.005"),
    Scenario("ScaleRL", False, 40, 8000.0, "AR(1) 0.005"),
    Scenario("ScaleRL", True, 40, 25_000.0, "white 0.003"),
    Scenario("batch 2048", True, 75, 25_000.0, "binomial"),
]


@pytest.mark.parametrize("scenario", HARD, ids=lambda s: f"{s.row}-{s.r0_known}-{s.noise}")
def test_coverage_of_hard_scenarios(scenario):
    seen = measure(scenario, 250, seed=7)
    assert seen.covers_A >= 0.83
    assert seen.covers_R >= 0.83
    assert seen.yes_but_wrong <= 0.05 + 0.03
    if scenario.window_end >= 8 * scenario.law.C_mid and scenario.noise == "white 0.003":
        assert seen.says_yes >= 0.95


def test_extended_keeps_the_spacing():
    compute = np.linspace(100, 1000, 10)
    more = extended(compute, 2000)
    assert more[:10].tolist() == compute.tolist()
    np.testing.assert_allclose(np.diff(more), 100)
    assert more[-1] == pytest.approx(2000)
