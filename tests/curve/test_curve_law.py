import numpy as np
import pytest

from scalerl.curve.sigmoid import Law, compute_at, linearise, sigmoid
from scalerl.curve.source_grid import grid_fit, grid_fit_fast
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares

LAW = Law(A=0.6, B=2.0, C_mid=1000.0, R0=0.2)


def test_eq_1_by_hand():
    assert sigmoid(1000.0, LAW) == pytest.approx(0.4)  # half of the gain
    assert sigmoid(2000.0, LAW) == pytest.approx(0.2 + 0.4 * 4 / 5)  # 1 / (1 + (1/2)^2) = 4/5
    assert sigmoid(0.0, LAW) == 0.2
    assert sigmoid(1e30, LAW) == pytest.approx(0.6)


def test_compute_at_is_the_inverse_and_says_never():
    assert compute_at(0.4, LAW) == pytest.approx(1000)
    assert compute_at([0.2, 0.6, 0.7], LAW).tolist() == [0.0, np.inf, np.inf]
    compute = np.geomspace(10, 1e5, 30)
    np.testing.assert_allclose(compute_at(sigmoid(compute, LAW), LAW), compute, rtol=1e-9)


def test_linearised_form_is_c_to_the_b():
    compute = np.geomspace(100, 1e4, 20)
    np.testing.assert_allclose(linearise(sigmoid(compute, LAW), LAW), compute**2, rtol=1e-9)
    assert np.isnan(linearise([0.1, 0.65], LAW)).all()


@pytest.mark.parametrize("known", [True, False])
def test_exact_curves_are_recovered(known):
    for law in TABLE_1.values():
        compute = np.linspace(1500, 50000, 40)
        found = least_squares(
            Design(np.log(compute), np.ones(40), known), sigmoid(compute, law)[None], np.array([0.3])
        )
        assert found.sse[0] < 1e-12
        assert found.A[0] == pytest.approx(law.A, abs=1e-4)
        assert np.exp(found.log_B[0]) == pytest.approx(law.B, rel=1e-3)
        assert np.exp(found.log_mid[0]) == pytest.approx(law.C_mid, rel=1e-3)
        assert found.R0[0] == pytest.approx(0.3, abs=2e-3)


def test_least_squares_is_global_and_bounded():
    """No start near or far finds less, and A never leaves [R0, 1]."""
    from scalerl.curve.varpro import polish

    rng = np.random.default_rng(3)
    compute = np.linspace(1500, 8000, 40)
    y = np.concatenate(
        [sigmoid(compute, law) + 0.01 * rng.standard_normal((10, 40)) for law in TABLE_1.values()]
    )
    design, r0 = Design(np.log(compute), np.ones(40)), np.full(len(y), 0.3)
    found = least_squares(design, y, r0)
    assert ((found.A >= 0.3) & (found.A <= 1)).all()
    for _ in range(6):
        other = polish(design, y, r0, rng.uniform(-1, 1.5, len(y)), rng.uniform(6, 12, len(y)))
        assert (found.sse <= other.sse + 1e-9).all()


def test_never_above_the_source_grid():
    rng = np.random.default_rng(4)
    compute = np.linspace(1500, 50000, 40)
    y = np.stack([sigmoid(compute, law) + 0.003 * rng.standard_normal(40) for law in TABLE_1.values()])
    mine = least_squares(Design(np.log(compute), np.ones(40)), y, np.full(len(y), 0.3)).sse
    assert (mine <= grid_fit_fast(compute, y, 0.3) + 1e-9).all()


def test_fast_grid_equals_the_scipy_loop():
    """The vectorised grid stands in for A.5's SciPy loop: on a part of the grid both find the same least
    squares."""
    rng = np.random.default_rng(5)
    compute = np.linspace(1500, 50000, 40)
    a_grid, c_grid = (
        np.array([0.45, 0.585, 0.61, 0.645, 0.8]),
        np.linspace(100, 40000, 100)[[0, 5, 6, 7, 27, 28, 99]],
    )
    for law in TABLE_1.values():
        y = sigmoid(compute, law) + 0.003 * rng.standard_normal(40)
        slow = grid_fit(compute, y, 0.3, a_grid, c_grid)
        sse = float(((y - sigmoid(compute, slow)) ** 2).sum())
        assert grid_fit_fast(compute, y[None], 0.3, a_grid, c_grid)[0] == pytest.approx(sse, rel=1e-5)
