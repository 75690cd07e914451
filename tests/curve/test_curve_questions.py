"""Forecast, backtest, compare, joint fits, planning: the questions people ask of fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalerl
from scalerl.curve.forecast import doubling_gain, forecast, last_worthwhile
from scalerl.curve.identify import needed_compute
from scalerl.curve.joint import joint, random_effects
from scalerl.curve.plan import ceiling_sd, plan_eval
from scalerl.curve.rivals import exponential, last_value, power_law
from scalerl.curve.series import Series
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.curve.spread import holm, pooled_spread
from scalerl.curve.table1 import TABLE_1
from scalerl.errors import UserError

LAW = TABLE_1["ScaleRL"]


def run(A=0.61, seed=0, name="run", end=25_000.0, n=40, sd=0.003, **about):
    compute = np.linspace(600, end, n)
    rng = np.random.default_rng(seed)
    rate = sigmoid(compute, LAW._replace(A=A)) + sd * rng.standard_normal(n)
    return Series.of(
        np.append(0.0, compute),
        np.append(0.3, rate),
        name=name,
        axis="device_hours",
        r0_stderr=0.002,
        **about,
    )


def test_forecast_answers_and_the_next_doubling():
    fit = scalerl.fit(run())
    seen = forecast(fit, at=[1e5], reach=[0.5, 0.7], stop_when=0.01)
    assert seen.prediction.mean[0] == pytest.approx(float(sigmoid(1e5, LAW)), abs=0.01)
    assert seen.reaches[1].compute == np.inf
    doubling = seen.next_doubling
    assert doubling.lower <= doubling.gain <= doubling.upper
    assert doubling.gain == pytest.approx(doubling_gain(25_000.0, LAW), abs=0.003)
    assert set(seen.to_dict()) == {"fit", "predictions", "reach", "next_doubling"}
    with pytest.raises(UserError, match="stop-when"):
        forecast(fit, stop_when=2.0)


def test_last_worthwhile_by_hand():
    """B = 1, A - R0 = 0.4: the doubling from C gains 0.4 x / ((1 + x)(1 + 2x)), x = C / C_mid; 0.05 at x =
    2.637."""
    law = Law(0.6, 1.0, 1000.0, 0.2)
    x = (5 + np.sqrt(25 - 8)) / 4 * 1  # 2 x^2 - 5 x + 1 = 0
    assert last_worthwhile(law, 0.05, 1000.0) == pytest.approx(1000 * x, rel=0.01)
    assert last_worthwhile(law, 0.5, 1000.0) == 1000.0


def test_rivals_recover_their_own_curves():
    compute = np.linspace(100, 1000, 30)
    later = np.array([2000.0, 5000.0])
    power = power_law(compute, 0.7 - 0.5 * (compute / 100) ** -0.5, None)(later)
    np.testing.assert_allclose(power, 0.7 - 0.5 * (later / 100) ** -0.5, atol=0.004)
    saturating = exponential(compute, 0.2 + 0.4 * (1 - np.exp(-3 * compute / 1000)), 0.2)(later)
    np.testing.assert_allclose(saturating, 0.2 + 0.4 * (1 - np.exp(-3 * later / 1000)), atol=0.002)
    assert last_value(compute, np.linspace(0.1, 0.4, 30), None)(later).tolist() == pytest.approx(
        [np.linspace(0.1, 0.4, 30)[-3:].mean()] * 2
    )


def test_backtest_of_a_sigmoid_beats_the_rivals():
    results = scalerl.backtest(run(end=16_000), fraction=(0.5, 0.75))
    assert [r.fraction for r in results] == [0.5, 0.75]
    best = results[0]
    assert best.fit.window[1] <= 8000
    assert abs(best.scalerl.end_error) < 0.02
    assert best.scalerl.mean_abs_error < min(s.mean_abs_error for s in best.scores[1:])
    assert best.scalerl.coverage >= 0.8
    assert {s.forecaster for s in best.scores} == {"sigmoid", "power law", "exponential", "last value"}
    with pytest.raises(UserError, match="fraction"):
        scalerl.backtest(run(), fraction=1.5)


def test_needed_compute_grows_until_identified():
    short = scalerl.fit(run(end=5000), window=(600, 5000))
    assert short.identified != "yes"
    needed = needed_compute(short, curves=24)
    assert 5000 < needed < 60_000
    full = scalerl.fit(run())
    assert full.identified == "yes"
    assert needed_compute(full) == full.window[1]


def test_compare_says_different_with_the_sentence_of_the_issue():
    high = [run(0.61 + d, seed=i, name=f"a{i}") for i, d in enumerate((-0.004, 0.0, 0.004))]
    low = [run(0.52 + d, seed=9 + i, name=f"b{i}") for i, d in enumerate((-0.004, 0.0, 0.004))]
    seen = scalerl.compare({"grpo": low, "scalerl": high}, budgets=[1e5])
    assert seen.verdict == "different"
    assert str(seen).startswith("scalerl has the higher ceiling: 0.6")
    assert "margin 0.020" in str(seen)
    assert seen.best[0].probability[1] > 0.99
    assert seen.to_dict()["ceilings"][0]["verdict"] == "different"


def test_compare_says_equivalent_and_then_looks_at_efficiency():
    fast = [run(0.60 + d, seed=i) for i, d in enumerate((-0.002, 0.0, 0.002, 0.001))]
    slow = [
        Series.of(s.compute * 1.6, s.pass_rate, name=s.name, axis=s.axis, r0=s.r0, r0_stderr=s.r0_stderr)
        for s in fast
    ]
    seen = scalerl.compare({"fast": fast, "slow": slow})
    assert seen.verdict == "equivalent"
    pair = seen.efficiencies[0]
    assert pair.C_mid_ratio == pytest.approx(1 / 1.6, rel=1e-3)
    assert pair.C_mid_p_value < 0.01
    assert pair.B_ratio == pytest.approx(1.0, rel=1e-3)


def test_one_seed_each_is_undecided_at_a_small_difference():
    seen = scalerl.compare({"a": run(0.60), "b": run(0.615, seed=1)})
    assert seen.verdict == "undecided"
    assert seen.spread.source == "prior"


def test_compare_refuses_other_held_out_sets_unless_forced():
    runs = {"a": run(held_out_hash="aa"), "b": run(seed=1, held_out_hash="bb")}
    with pytest.raises(UserError, match="different held-out sets"):
        scalerl.compare(runs)
    assert scalerl.compare(runs, force=True).verdict
    with pytest.raises(UserError, match="at least two"):
        scalerl.compare({"a": run()})


def test_compare_refuses_device_time_of_different_kinds_only():
    """An hour on one kind of device isn't an hour on another; a FLOP is a FLOP."""
    runs = {"a": run(name="a", device_kind="H100"), "b": run(seed=1, name="b", device_kind="H200")}
    with pytest.raises(UserError, match=r"H100 \(a\), H200 \(b\).*--axis flops"):
        scalerl.compare(runs)
    assert scalerl.compare(runs, force=True).verdict
    known_once = {"a": runs["a"], "b": run(seed=1, name="b")}
    assert scalerl.compare(known_once).verdict
    flops = {name: Series(**(vars(one) | {"axis": "flops"})) for name, one in runs.items()}
    assert scalerl.compare(flops).verdict


def test_crossover_is_found_where_the_curves_cross():
    """A higher and slower against lower and faster: they cross where both laws are equal."""
    a, b = LAW, Law(0.70, 1.92, 6000.0, 0.3)
    grid = np.geomspace(1000, 30_000, 4000)
    true = grid[np.flatnonzero(np.diff(np.sign(sigmoid(grid, b) - sigmoid(grid, a))))[-1]]
    compute = np.linspace(600, 40_000, 60)
    rng = np.random.default_rng(0)
    runs = {
        name: Series.of(
            compute,
            sigmoid(compute, law) + 0.002 * rng.standard_normal(60),
            name=name,
            r0=0.3,
            r0_stderr=1e-3,
        )
        for name, law in (("a", a), ("b", b))
    }
    cross = scalerl.compare(runs).crossovers[0]
    assert cross.lower < true < cross.upper
    assert cross.probability > 0.9


def test_holm_and_pooled_spread_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    spread = pooled_spread([[0.60, 0.62], [0.5, 0.5]])  # variances 0.0002 and 0, two degrees
    assert (spread.sd, spread.degrees, spread.source) == (pytest.approx(0.01), 2, "seeds")
    assert spread.error_of_difference([0, 0], [0, 0]) == pytest.approx(0.01)
    prior = pooled_spread([[0.6], [0.5]])
    assert prior.error_of_difference([0.003], [0.004]) == pytest.approx(
        np.sqrt(2 * 0.01**2 + 0.003**2 + 0.004**2)
    )


@given(st.floats(-0.05, 0.05))
@settings(max_examples=20, deadline=None)
def test_random_effects_shift_with_the_data(shift):
    values, errors = np.array([0.60, 0.61, 0.615]), np.array([0.003, 0.004, 0.002])
    a, b = random_effects(values, errors), random_effects(values + shift, errors)
    assert b.mean - a.mean == pytest.approx(shift, abs=1e-9)
    assert b.mean_interval.lower - a.mean_interval.lower == pytest.approx(shift, abs=1e-7)


def test_three_intervals_cover_their_three_quantities():
    """Between-seed sd 0.010, fit error 0.004, 3 seeds: each interval holds its own quantity at 90% or
    more."""
    rng = np.random.default_rng(0)
    hits = np.zeros(3)
    trials = 200
    for _ in range(trials):
        true = 0.6 + 0.010 * rng.standard_normal(4)
        seen = random_effects(true[:3] + 0.004 * rng.standard_normal(3), np.full(3, 0.004))
        ends = (seen.run_intervals[0], seen.mean_interval, seen.next_seed_interval)
        hits += [e.lower <= v <= e.upper for e, v in zip(ends, (true[0], 0.6, true[3]), strict=True)]
    assert (hits / trials >= 0.85).all()
    assert (hits / trials <= 0.98).all()


def test_joint_of_fits_orders_the_three_intervals():
    seen = joint([scalerl.fit(run(0.60 + d, seed=i)) for i, d in enumerate((-0.008, 0.0, 0.01))])
    widths = [np.ptp(i) for i in (seen.run_intervals[0], seen.mean_interval, seen.next_seed_interval)]
    assert widths[0] < widths[1] < widths[2]
    assert seen.mean == pytest.approx(0.60, abs=0.01)
    with pytest.raises(UserError, match="at least one"):
        joint([])


def test_plan_reaches_the_margin_and_more_noise_costs_more():
    plans = plan_eval(LAW, 0.02, until=20_000, curves=24)
    assert plans
    assert all(p.half_width <= 0.02 for p in plans)
    assert plans[0].completions == min(p.completions for p in plans)
    assert plans[0].share > 0.5
    assert plan_eval(LAW, 0.001, until=3000) == []
    compute = np.linspace(1000, 20_000, 40)
    assert ceiling_sd(LAW, compute, 0.006, 0.3) == pytest.approx(2 * ceiling_sd(LAW, compute, 0.003, 0.3))
    with pytest.raises(UserError, match="margin"):
        plan_eval(LAW, 0.9)
