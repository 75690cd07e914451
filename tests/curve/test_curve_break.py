"""Input that isn't a curve: one clear line or a verdict, never a crash, a warning or a silent number."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import scalerl
from scalerl.curve.forecast import forecast
from scalerl.curve.series import Series
from scalerl.curve.sigmoid import sigmoid
from scalerl.curve.table1 import TABLE_1
from scalerl.errors import UserError

BAD = (math.nan, math.inf, -math.inf)
odd = st.sampled_from([*BAD, -1.0, 0.0, 1.0, 1e-300, 1e300, 5e-324, 1 + 1e-15, 0.5, 100.0, -0.5])
numbers = odd | st.floats(0, 1) | st.floats(1, 1e6) | st.floats()
columns = st.lists(st.tuples(numbers, numbers), min_size=0, max_size=12)
settings_of_a_break_test = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def sound(fit):
    """Everything that a fit says is a finite number in its place, or it says that it isn't fitted."""
    assert fit.identified in ("yes", "weak", "no")
    assert fit.why
    if not fit.fitted:
        assert fit.verdict != "ok"
        assert math.isnan(fit.A)
        return
    assert 0 <= fit.R0 <= fit.A <= 1
    assert 0 < fit.B < math.inf
    assert fit.C_mid > 0
    for name in ("A", "R0", "B", "C_mid"):
        lower, upper = fit.interval(name)
        assert lower <= getattr(fit, name) <= upper
    ahead = fit.predict([float(fit.used.compute[0]), float(fit.used.compute[-1])])
    assert ((ahead.lower >= 0) & (ahead.lower <= ahead.mean)).all()
    assert ((ahead.upper <= 1) & (ahead.mean <= ahead.upper)).all()
    reach = fit.reach(0.5)
    assert reach.lower <= reach.compute <= reach.upper
    assert 0 <= reach.probability <= 1
    assert forecast(fit, stop_when=0.01).next_doubling.advice


@given(columns, st.sampled_from(["auto", "free", 0.3]))
@example([(1.0, 0.5)], "free")  # one point
@example([(float(i), 0.5) for i in range(1, 9)], 0.3)  # constant
@example([(1.0, 0.2), (1.0, 0.3)], "free")  # duplicates
@example([(10.0**-300 * i, 0.1 * i) for i in range(1, 9)], 0.0)
@example([(1e300 * i, 0.1 * i) for i in range(1, 9)], "free")
@example([(1 + 1e-15 * i, 0.1 * i) for i in range(1, 9)], "free")
@settings_of_a_break_test
def test_any_columns_give_a_user_error_or_a_sound_fit(points, r0):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fit = scalerl.fit(compute=[c for c, _ in points], pass_rate=[r for _, r in points], r0=r0)
        except UserError as error:
            refused = str(error)
        else:
            refused = None
    if refused is not None:
        assert "\n" not in refused
        return
    assert all(math.isfinite(c) and c >= 0 and 0 <= r <= 1 for c, r in points)  # nothing bad got through
    sound(fit)


spacings = st.lists(
    st.tuples(st.floats(-12, 12), st.floats(0, 1) | st.sampled_from([0.0, 0.3, 1.0])), min_size=6, max_size=14
)


@given(spacings, st.floats(-280, 280), st.sampled_from(["free", 0.0, 0.3]), st.sampled_from(["weak", "none"]))
@settings_of_a_break_test
def test_any_spacing_and_unit_of_compute_give_a_sound_fit(points, unit, r0, prior):
    """Evaluations from a billionth to a billion times the unit apart, the unit itself anything a float
    holds."""
    compute = np.unique(10.0 ** np.array([c + unit for c, _ in points]))
    rate = np.array([r for _, r in points])[: len(compute)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound(scalerl.fit(compute=compute, pass_rate=rate, r0=r0, prior=prior))


def curve(n=24):
    compute = np.linspace(1500, 20_000, n)
    noise = 0.004 * np.random.default_rng(5).standard_normal(n)
    return compute, sigmoid(compute, TABLE_1["ScaleRL"]) + noise


@given(st.integers(0, 23), st.sampled_from(BAD), st.sampled_from(["compute", "pass_rate", "stderr"]))
@settings(max_examples=30, deadline=None)
def test_one_bad_value_is_named_with_its_place(at, value, field):
    compute, rate = curve()
    given_columns = {"compute": compute.copy(), "pass_rate": rate.copy(), "stderr": np.full(24, 0.004)}
    given_columns[field][at] = value
    with pytest.raises(UserError) as caught:
        scalerl.fit(**given_columns, r0=0.3)
    assert field in str(caught.value)
    assert str(value) in str(caught.value)


@given(st.integers(1, 23))
@settings(max_examples=20, deadline=None)
def test_negative_and_repeated_compute_are_named(at):
    compute, rate = curve()
    negative, repeated = compute.copy(), compute.copy()
    negative[at], repeated[at] = -compute[at], compute[at - 1]
    with pytest.raises(UserError, match="can't be negative"):
        scalerl.fit(compute=negative, pass_rate=rate, r0=0.3)
    with pytest.raises(UserError, match="two evaluations at compute"):
        scalerl.fit(compute=repeated, pass_rate=rate, r0=0.3)


@given(st.floats(-2, 3).filter(lambda v: not 0 <= v <= 1), st.integers(0, 23))
@settings(max_examples=30, deadline=None)
def test_a_rate_outside_0_to_1_is_asked_about_not_guessed(value, at):
    compute, rate = curve()
    rate[at] = value
    with pytest.raises(UserError, match=r"--scale (percent|pm1)"):
        scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)


@given(st.sampled_from([("percent", lambda r: 100 * r), ("pm1", lambda r: 2 * r - 1)]))
@settings(max_examples=2, deadline=None)
def test_percentages_and_rewards_give_the_same_fit_once_named(scale):
    name, change = scale
    compute, rate = curve()
    plain = scalerl.fit(compute=compute, pass_rate=rate, r0=0.3)
    with pytest.raises(UserError, match=f"--scale {name}"):
        scalerl.fit(compute=compute, pass_rate=change(rate) - (0.5 if name == "pm1" else 0), r0=0.3)
    named = scalerl.fit(compute=compute, pass_rate=change(rate), r0=0.3, scale=name)
    assert (named.A, named.B, named.C_mid) == pytest.approx((plain.A, plain.B, plain.C_mid), rel=1e-6)


@given(st.floats(0, 1), st.integers(1, 20), st.sampled_from([0.0, 0.3, "free"]))
@settings(max_examples=30, deadline=None)
def test_constant_curves_have_a_verdict_and_no_number(value, n, r0):
    fit = scalerl.fit(compute=np.arange(1.0, n + 1), pass_rate=np.full(n, value), r0=r0)
    assert fit.verdict in ("too-few", "all-zero", "all-equal")
    assert math.isnan(fit.A)
    assert np.isnan(fit.predict([10.0]).mean).all()
    assert math.isnan(fit.reach(0.5).compute)


@pytest.mark.parametrize("stderr", [np.zeros(24), np.full(24, 1e-300), np.full(24, 0.5)])
@pytest.mark.parametrize("kind", ["per-prompt", "binomial"])
def test_standard_errors_of_any_size_give_a_sound_fit(stderr, kind):
    compute, rate = curve()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound(scalerl.fit(Series.of(compute, rate, stderr=stderr, stderr_kind=kind), r0=0.3))
