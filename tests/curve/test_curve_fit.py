import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import scalerl
from scalerl.curve.series import Series
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.curve.table1 import TABLE_1
from scalerl.errors import UserError

LAW = TABLE_1["ScaleRL"]


def noisy(seed=0, n=40, end=20000.0, law=LAW, sd=0.003, start=1500.0):
    compute = np.linspace(start, end, n)
    return compute, sigmoid(compute, law) + sd * np.random.default_rng(seed).standard_normal(n)


def with_start(compute, rate, r0=0.3, r0_stderr=0.003, **about):
    return Series.of(np.append(0.0, compute), np.append(r0, rate), r0_stderr=r0_stderr, **about)


def test_parameters_and_intervals_of_a_good_curve():
    compute, rate = noisy()
    fit = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    assert pytest.approx(LAW.A, abs=0.005) == fit.A
    assert pytest.approx(LAW.B, abs=0.15) == fit.B
    assert fit.C_mid == pytest.approx(LAW.C_mid, rel=0.05)
    assert fit.identified == "yes"
    for name in ("A", "B", "C_mid"):
        lower, upper = fit.interval(name)
        assert lower < getattr(fit, name) < upper
        narrow = fit.interval(name, 0.5)
        assert lower < narrow.lower < narrow.upper < upper


def test_prediction_holds_the_estimate_and_tends_to_the_ceiling():
    fit = scalerl.fit(compute=noisy()[0], pass_rate=noisy()[1], r0=0.3)
    p = fit.predict([0.0, 2542.0, 1e5, 1e12])
    assert (p.lower <= p.mean).all()
    assert (p.mean <= p.upper).all()
    assert p.mean[0] == p.lower[0] == p.upper[0] == 0.3
    assert p.mean[3] == pytest.approx(fit.A, abs=1e-6)
    assert (p.lower[3], p.upper[3]) == pytest.approx(fit.interval("A"), abs=1e-3)


def test_reach_and_never():
    fit = scalerl.fit(compute=noisy()[0], pass_rate=noisy()[1], r0=0.3)
    half = fit.reach(0.45)
    assert half.lower < half.compute < half.upper
    assert half.compute == pytest.approx(2542, rel=0.06)
    assert half.probability == pytest.approx(1.0)
    never = fit.reach(0.8)
    assert never.compute == never.upper == np.inf
    assert never.probability < 1e-3


def test_measured_r0_carries_its_error():
    compute, rate = noisy(end=8000)
    known = scalerl.fit(with_start(compute, rate, r0_stderr=1e-5))
    loose = scalerl.fit(with_start(compute, rate, r0_stderr=0.05))
    free = scalerl.fit(compute=compute, pass_rate=rate)
    assert (known.r0_mode, loose.r0_mode, free.r0_mode) == ("measured", "measured", "free")
    assert any("R0 is fitted" in note for note in free.notes)
    widths = [np.ptp(f.interval("A")) for f in (known, loose, free)]
    given = np.ptp(scalerl.fit(compute=compute, pass_rate=rate, r0=0.3).interval("A"))
    assert widths[0] == pytest.approx(given, rel=0.05)
    assert widths[0] < widths[1] < widths[2] * 1.05


def test_short_window_is_not_identified_and_says_so():
    compute, rate = noisy(law=TABLE_1["length 32k"], end=8000)
    fit = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    assert fit.identified == "no"
    assert "isn't in the data" in fit.why
    assert np.ptp(fit.interval("A")) > 0.1


@given(st.floats(1e-6, 1e20))
@settings(max_examples=15, deadline=None)
def test_compute_unit_scales_c_mid_and_nothing_else(unit):
    compute, rate = noisy(n=20)
    a = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    b = scalerl.fit(compute=compute * unit, pass_rate=rate, r0=0.3)
    assert pytest.approx((a.A, a.B, a.R0), rel=1e-6) == (b.A, b.B, b.R0)
    assert b.C_mid / unit == pytest.approx(a.C_mid, rel=1e-6)
    assert b.interval("A") == pytest.approx(a.interval("A"), rel=1e-5)


@given(st.floats(-0.25, 0.35))
@settings(max_examples=15, deadline=None)
def test_a_constant_shifts_r_r0_and_a(shift):
    compute, rate = noisy(n=20)
    a = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    b = scalerl.fit(compute=compute, pass_rate=rate + shift, r0=0.3 + shift)
    assert b.A - shift == pytest.approx(a.A, abs=1e-6)
    assert (b.B, b.C_mid) == pytest.approx((a.B, a.C_mid), rel=1e-5)


@given(st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_order_of_points_does_not_matter(random):
    compute, rate = noisy(n=20)
    order = list(range(20))
    random.shuffle(order)
    a = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    b = scalerl.fit(compute=compute[order], pass_rate=rate[order], r0=0.3)
    assert a.law == b.law
    assert a.interval("A") == b.interval("A")


rates = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=14)


@given(rates, st.sampled_from(["free", 0.0, 0.3]), st.sampled_from(["weak", "none"]))
@example([0.0] * 8, 0.0, "none")
@example([1.0] * 8, 0.3, "none")
@example([0.5] * 7 + [0.5000001], "free", "none")
@example([0.0, 1.0] * 5, "free", "none")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_curve_gives_a_verdict_without_a_warning(values, r0, prior):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = scalerl.fit(compute=np.arange(1, len(values) + 1), pass_rate=values, r0=r0, prior=prior)
        lower, upper = fit.interval("A")
        p = fit.predict([0.5, 100.0])
    assert fit.identified in ("yes", "weak", "no")
    assert fit.why
    if fit.fitted:
        assert 0 <= fit.R0 <= fit.A <= 1
        assert 0 <= lower <= fit.A <= upper <= 1
        assert ((p.lower <= p.mean) & (p.mean <= p.upper)).all()
    else:
        assert np.isnan([fit.A, lower, upper]).all()


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        ([0.1, 0.2], "too-few"),
        ([0.0] * 10, "all-zero"),
        ([0.4] * 10, "all-equal"),
        ([0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.62, 0.63, 0.3, 0.1, 0.05, 0.04], "collapse"),
        ([0.40, 0.41, 0.39, 0.40, 0.41, 0.40, 0.39, 0.41, 0.40, 0.40], "no-rise"),
    ],
)
def test_each_bad_curve_has_its_own_verdict(rate, verdict):
    fit = scalerl.fit(compute=np.arange(1, len(rate) + 1), pass_rate=rate, r0="free")
    assert (fit.verdict, fit.identified) == (verdict, "no")


def test_collapse_is_not_fitted_over():
    rate = [0.2, 0.25, 0.3, 0.38, 0.45, 0.5, 0.55, 0.58, 0.6, 0.3, 0.1, 0.05, 0.05]
    fit = scalerl.fit(compute=np.arange(1, 14), pass_rate=rate, r0=0.2)
    assert fit.window[1] <= 9
    assert fit.A > 0.55
    assert "collapse" in fit.why


def test_window_beyond_the_data():
    compute, rate = noisy()
    assert scalerl.fit(compute=compute, pass_rate=rate, r0=0.3, window=(1e6, 2e6)).verdict == "beyond-data"
    partly = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3, window=(1500, 1e6))
    assert any("beyond the last evaluation" in note for note in partly.notes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": (8000, 1500)},
        {"window": (-1, None)},
        {"skip": "later"},
        {"r0": "never"},
        {"r0": "measured"},
        {"r0": 1.5},
        {"prior": "strong"},
        {"method": "magic"},
    ],
)
def test_wrong_options_raise_user_errors(wrong):
    compute, rate = noisy(n=12)
    with pytest.raises(UserError):
        scalerl.fit(compute=compute, pass_rate=rate, **wrong)
    with pytest.raises(UserError):
        scalerl.fit()


def test_source_grid_is_for_gpu_hours_only(monkeypatch):
    """A.5's grid as it is described; another unit, or a window below the grid, is refused with a remedy."""
    import scalerl.curve.fit as module

    compute, rate = noisy()
    monkeypatch.setattr(module, "grid_fit", lambda c, y, r0: Law(0.8, 1.9, 2518.2, r0))
    seen = scalerl.fit(
        Series.of(compute, rate, axis="device_hours", name="a"), r0=0.3, method="grid", noise="white"
    )
    assert (seen.A, seen.C_mid, seen.method) == (0.8, 2518.2, "grid")
    assert seen.sse == pytest.approx(((rate - sigmoid(compute, seen.law)) ** 2).sum())
    assert any("A on the edge" in note for note in seen.notes)
    assert any(
        "GPU-hours" in n for n in scalerl.fit(compute=compute, pass_rate=rate, r0=0.3, method="grid").notes
    )
    with pytest.raises(UserError, match="in trained tokens: use --method varpro, or --axis device_hours"):
        scalerl.fit(Series.of(compute, rate, axis="tokens_trained"), r0=0.3, method="grid")
    with pytest.raises(UserError, match="this window ends at 2: use --method varpro"):
        scalerl.fit(Series.of(compute * 1e-4, rate, axis="device_hours"), r0=0.3, method="grid")


def test_early_phase_is_found_and_said():
    compute = np.linspace(500, 20000, 60)
    rate = sigmoid(compute, Law(0.61, 1.92, 6000.0, 0.3)) + 0.002 * np.random.default_rng(0).standard_normal(
        60
    )
    rate[:6] -= np.linspace(0.08, 0.02, 6)  # a start that the law doesn't describe
    fit = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3, skip="auto")
    assert compute[4] <= fit.window[0] <= compute[9]
    assert any("early phase" in note for note in fit.notes)
    assert pytest.approx(0.61, abs=0.02) == fit.A


def test_weak_prior_keeps_b_from_its_bound():
    compute, rate = np.arange(1.0, 9), np.array([0.20, 0.21, 0.45, 0.58, 0.60, 0.59, 0.60, 0.60])
    none = scalerl.fit(compute=compute, pass_rate=rate, r0=0.2, prior="none")
    auto = scalerl.fit(compute=compute, pass_rate=rate, r0=0.2)
    assert auto.B < none.B
    assert auto.to_dict()["prior"] == "weak"
    assert scalerl.fit(compute=noisy()[0], pass_rate=noisy()[1], r0=0.3).to_dict()["prior"] == "none"


def test_per_prompt_noise_is_a_floor_and_binomial_is_not():
    compute, rate = noisy(n=40, sd=0.001)
    stderr = np.full(40, 0.01)
    per_prompt = scalerl.fit(Series.of(compute, rate, stderr=stderr, stderr_kind="per-prompt"), r0=0.3)
    binomial = scalerl.fit(Series.of(compute, rate, stderr=stderr, stderr_kind="binomial"), r0=0.3)
    assert per_prompt.sigma == pytest.approx(0.01)
    assert binomial.sigma < 0.002
    assert np.ptp(per_prompt.interval("A")) > 5 * np.ptp(binomial.interval("A"))
