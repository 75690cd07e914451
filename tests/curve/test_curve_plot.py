import numpy as np
import pytest

import scalerl
from scalerl.curve.plot import COLOURS, plot_run, save
from scalerl.curve.plot_effects import plot_effect, plot_linearised
from scalerl.curve.plot_recipes import plot_recipes, plot_seed_margin
from scalerl.curve.series import Series
from scalerl.curve.sigmoid import sigmoid
from scalerl.curve.table1 import TABLE_1
from scalerl.errors import UserError

LAW = TABLE_1["ScaleRL"]


@pytest.fixture(scope="module")
def fits():
    compute = np.linspace(500, 16_000, 30)
    rng = np.random.default_rng(0)
    runs = [
        Series.of(compute, sigmoid(compute, LAW) + 0.003 * rng.standard_normal(30), name=f"s{i}")
        for i in range(2)
    ]
    return [scalerl.fit(one, r0=0.3, window=(1500, 8000)) for one in runs]


def test_one_run_has_points_crosses_solid_and_dashed(fits, tmp_path):
    ax = plot_run(fits[0].series, fits[0])
    assert ax.get_xscale() == "log"
    dots, crosses, hollow, solid, dashed = ax.get_lines()
    assert len(dots.get_xdata()) == len(fits[0].used)
    assert crosses.get_marker() == "x"
    assert crosses.get_xdata().min() > 8000
    assert hollow.get_xdata().max() < 1500
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert solid.get_xdata().max() == pytest.approx(fits[0].window[1])
    assert dashed.get_xdata().max() == pytest.approx(16_000)
    assert len(ax.collections) == 1  # the band
    for ending in ("svg", "pdf", "png"):
        save(ax, tmp_path / f"f.{ending}")
        assert (tmp_path / f"f.{ending}").stat().st_size > 1000


def test_axes_are_composed_by_the_caller(fits):
    from matplotlib.figure import Figure

    axes = Figure().subplots(2, 2).ravel()
    assert plot_run(fits[0].series, None, axes[0]) is axes[0]
    assert plot_recipes({"a": fits, "b": fits[0]}, axes[1]) is axes[1]
    assert plot_seed_margin(fits, axes[2]) is axes[2]
    assert plot_linearised({"a": fits[0], "b": fits[1]}, axes[3]) is axes[3]


def test_effect_draws_each_value_and_refuses_other_names():
    ax = plot_effect(LAW, "A", [0.5, 0.6, 0.7])
    tops = sorted(line.get_ydata().max() for line in ax.get_lines() if len(line.get_ydata()) > 1)
    assert tops == pytest.approx([0.5, 0.6, 0.7], abs=0.002)
    with pytest.raises(UserError, match="parameter"):
        plot_effect(LAW, "D", [1.0])


def test_linearised_lines_have_slope_b(fits):
    line = plot_linearised({"a": fits[0]}, common_A=0.61).get_lines()[1]
    x, y = line.get_xdata(), line.get_ydata()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(1.92, abs=0.15)


def test_colours_differ():
    assert len(set(COLOURS)) == len(COLOURS)
