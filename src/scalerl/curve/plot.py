"""Figures of the law: one run (like the source's Fig. 1a); the others live in plot_recipes.py and
plot_effects.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scalerl.curve.fitted import Fit
from scalerl.curve.series import Series
from scalerl.curve.sigmoid import sigmoid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette: told apart with any colour vision; the order starts with the most distinct in grey
# print too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A6D00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


def plot_run(
    series: Series,
    fit: Fit | None = None,
    ax: Axes | None = None,
    *,
    colour: str = COLOURS[0],
    level: float = 0.9,
    until: float | None = None,
    label: str | None = None,
    marker: str = "o",
    band: bool = True,
) -> Axes:
    """Evaluations and the fitted law: dots in the window, crosses outside it, a solid line over the window,
    dashed beyond.

    series: all points; fit: None draws the points only; until: compute up to which the line goes (default:
    the last point); band: the interval of the curve at `level`, shaded. Returns the axes (log compute).
    """
    ax = new_axes() if ax is None else ax
    points = series.take(series.compute > 0)
    name = label or series.name
    if fit is None or not fit.fitted:
        ax.plot(points.compute, points.pass_rate, marker, color=colour, ms=4, label=name)
        return dress(ax, series)
    low, high = fit.window
    inside = (points.compute >= low) & (points.compute <= high)
    later = points.compute > high
    early = points.compute < low
    ax.plot(
        points.compute[inside], points.pass_rate[inside], marker, color=colour, ms=4, label=f"{name}: fitted"
    )
    if later.any():
        text = "later evaluations"
        ax.plot(points.compute[later], points.pass_rate[later], "x", color=colour, ms=5, mew=1.2, label=text)
    if early.any():
        ax.plot(
            points.compute[early], points.pass_rate[early], marker, mfc="none", color=colour, ms=4, alpha=0.6,
            label="before the window",
        )  # fmt: skip
    draw_law(ax, fit, colour, float(until or points.compute[-1]), level, band)
    return dress(ax, series)


def draw_law(ax: Axes, fit: Fit, colour: str, until: float, level: float = 0.9, band: bool = True) -> None:
    """The law's line: solid over the window, dashed beyond it to `until`, with the interval shaded."""
    low, high = fit.window
    fitted = np.geomspace(low, high, 120)
    ax.plot(
        fitted, sigmoid(fitted, fit.law), "-", color=colour, lw=1.8, label=f"A = {fit.A:.3f}, B = {fit.B:.2f}"
    )
    if until > high:
        beyond = np.geomspace(high, until, 80)
        ax.plot(beyond, sigmoid(beyond, fit.law), "--", color=colour, lw=1.8)
    if band:
        grid = np.geomspace(low, max(until, high), 40)
        prediction = fit.predict(grid, level)
        ax.fill_between(grid, prediction.lower, prediction.upper, color=colour, alpha=0.15, lw=0)


def new_axes(width: float = 5.2, height: float = 3.6) -> Axes:
    """One pair of axes in a figure of its own, without touching pyplot's state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def dress(ax: Axes, series: Series) -> Axes:
    """Log compute axis, names of the axes, light grid, legend."""
    ax.set_xscale("log")
    ax.set_xlabel(f"compute ({series.unit})")
    ax.set_ylabel(series.label)
    ax.grid(True, which="major", alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="best")
    return ax


def save(ax: Axes, path: Any, dpi: int = 200) -> None:
    """Write the figure of `ax`; the ending names the format (.svg, .pdf, .png)."""
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.savefig(path, dpi=dpi)
