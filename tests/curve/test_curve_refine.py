"""Nodes between nodes, inverting distribution functions, and what must hold, by hand."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from scalerl.curve.coverage import Coverage, Scenario
from scalerl.curve.mixture import invert
from scalerl.curve.must_hold import misses, summary
from scalerl.curve.refine import PIECES, between, between_cubic


def test_straight_lines_between_nodes():
    inner = between(np.array([[0.0, 3.0, 9.0]]))
    assert inner.tolist() == [[0, 0.75, 1.5, 2.25, 3, 4.5, 6, 7.5, 9]]
    assert between(np.zeros((2, 4, 5)), axis=1).shape == (2, 3 * PIECES + 1, 5)


def test_cubic_pieces_follow_a_parabola_on_uneven_nodes():
    at = np.array([-3.0, -2.2, -1.2, -0.5, 0.0, 0.4, 1.1, 2.0, 3.3])
    inner = between(at)
    error = between_cubic(at, -0.5 * at**2) + 0.5 * inner**2
    assert np.abs(error[PIECES:-PIECES]).max() < 0.03  # the slope limit next to the peak, nothing elsewhere
    straight = between(-0.5 * at**2) + 0.5 * inner**2
    assert np.abs(straight[PIECES:-PIECES]).max() > 0.08


def test_cubic_pieces_do_not_swing_beyond_a_cliff_and_bear_equal_nodes():
    at = np.array([0.0, 1.0, 2.0, 2.0, 2.0])
    values = np.array([0.0, -10.0, -1000.0, -1000.0, -1000.0])
    inner = between_cubic(at, values)
    assert np.isfinite(inner).all()
    assert inner.max() <= 0.0
    assert (np.diff(inner) <= 1e-9).all()


def test_invert_finds_quantiles_and_survives_flat_stretches():
    def normal(x):
        return ndtr(x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)

    found = invert(normal, 0.95, np.full(3, -40.0), np.array([2.0, 40.0, 9.0]))
    assert found == pytest.approx(ndtri(0.95), abs=1e-7)

    def two_steps(x):  # mass 1/2 around 0 and 1/2 around 100: no density in between
        return 0.5 * (np.clip(x + 0.5, 0, 1) + np.clip(x - 99.5, 0, 1)), np.where(
            (np.abs(x) < 0.5) | (np.abs(x - 100) < 0.5), 0.5, 0.0
        )

    assert invert(two_steps, 0.9, np.array([-1.0]), np.array([200.0]))[0] == pytest.approx(100.3, abs=1e-6)


def seen(scenario, **shares):
    given = {"covers_A": 0.9, "covers_R": 0.9, "says_yes": 1.0, "says_no": 0.0, "yes_but_wrong": 0.0}
    return Coverage(scenario, 125, **(given | shares), mean_error_A=0.001, mean_width_A=0.004)


def test_what_must_hold_is_what_the_issue_says():
    white = Scenario("ScaleRL", True, 40, 50_000.0, "white 0.003")
    ar1 = Scenario("ScaleRL", True, 40, 50_000.0, "AR(1) 0.005")
    assert misses(seen(white)) == []
    assert misses(seen(white, covers_A=0.86)) == ["A 0.860 < 0.87"]
    assert misses(seen(white, covers_R=0.94)) == ["R(100k) 0.940 > 0.93"]
    assert misses(seen(ar1, covers_R=0.94)) == []
    assert misses(seen(ar1, covers_R=0.98)) == ["R(100k) 0.980 > 0.97"]
    assert misses(seen(ar1, covers_R=0.99, says_yes=0.2)) == []  # not identified: no upper limit
    assert misses(seen(ar1, yes_but_wrong=0.06)) == ["'yes' and wrong 0.060 > 0.05"]
    assert misses(seen(white, says_yes=0.94)) == ["'yes' 0.940 < 0.95"]
    assert misses(seen(ar1, says_yes=0.94)) == []  # only where the noise is white 0.003
    rows = summary([seen(white), seen(white, covers_A=0.86), seen(ar1)])
    assert [row["scenarios"] for row in rows] == [2, 1]
    assert (rows[0]["A_least"], rows[0]["missed"]) == (0.86, 1)


def test_coverage_rows_survive_writing():
    one = seen(Scenario("code", False, 75, 8000.0, "binomial"), covers_A=0.91)
    assert Coverage.from_dict(one.to_dict() | {"seed": 3}) == one
