import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalerl.curve.series import Series
from scalerl.errors import UserError


def test_points_are_sorted_and_evaluations_at_zero_become_r0():
    series = Series.of([4, 0, 2, 0], [0.5, 0.2, 0.4, 0.3], stderr=[0.01, 0.03, 0.01, 0.04])
    assert series.compute.tolist() == [0, 2, 4]
    assert series.pass_rate.tolist() == [0.25, 0.4, 0.5]
    assert series.r0 == 0.25
    assert series.r0_stderr == pytest.approx(0.05 / 2)  # sqrt(0.03^2 + 0.04^2) / 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([1, 2, float("nan")], [0.1, 0.2, 0.3]), "compute[2] is nan"),
        (([1, 2, 3], [0.1, float("inf"), 0.3]), "pass_rate[1] is inf"),
        (([-1, 2, 3], [0.1, 0.2, 0.3]), "can't be negative"),
        (([1, 2, 2], [0.1, 0.2, 0.3]), "two evaluations at compute 2"),
        (([1, 2, 3], [10.0, 20.0, 30.0]), "--scale percent"),
        (([1, 2, 3], [-0.5, 0.2, 0.3]), "--scale pm1"),
        (([1, 2, 3], [-5.0, 0.2, 300.0]), "outside [0, 1]"),
        (([1, 2], [0.1, 0.2, 0.3]), "compute has 2 values and pass_rate 3"),
        (([[1, 2]], [[0.1, 0.2]]), "dimensions"),
        (([1, "a"], [0.1, 0.2]), "isn't a number"),
    ],
)
def test_bad_columns_give_one_clear_line(columns, words):
    with pytest.raises(UserError) as caught:
        Series.of(*columns)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scales_are_applied_when_named():
    assert Series.of([1, 2], [25.0, 50.0], scale="percent").pass_rate.tolist() == [0.25, 0.5]
    assert Series.of([1, 2], [-1.0, 0.5], scale="pm1").pass_rate.tolist() == [0.0, 0.75]
    assert Series.of([1, 2], [0, 50], stderr=[1, 2], scale="percent").stderr.tolist() == [0.01, 0.02]
    with pytest.raises(UserError, match="isn't in percent"):
        Series.of([1, 2], [25.0, 150.0], scale="percent")


@given(st.permutations(range(6)))
def test_order_of_points_does_not_matter(order):
    compute, rate = np.arange(1.0, 7), np.linspace(0.1, 0.6, 6)
    series = Series.of(compute[list(order)], rate[list(order)])
    assert series.compute.tolist() == compute.tolist()
    assert series.pass_rate.tolist() == rate.tolist()


def test_between_keeps_both_ends():
    series = Series.of([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])
    assert series.between(2, 3).compute.tolist() == [2, 3]
    assert len(series.between(None, 1)) == 1
