"""Figures of many recipes: their curves (like Fig. 2) and the error margin over seeds (like Fig. 8a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalerl.curve.fitted import Fit
from scalerl.curve.plot import COLOURS, MARKERS, dress, new_axes
from scalerl.curve.sigmoid import sigmoid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_recipes(
    fits: Mapping[str, Sequence[Fit] | Fit], ax: Axes | None = None, *, until: float | None = None
) -> Axes:
    """Every recipe in a colour and marker of its own: evaluations (hollow beyond the window) and the law's
    line.

    fits: recipe name -> its fit or fits (seeds share colour and marker). The line is solid over the window,
    dashed beyond it to `until` (default: the last evaluation), and is labelled with the mean A of the recipe.
    """
    ax = new_axes(6.2, 4.0) if ax is None else ax
    groups = {name: [value] if isinstance(value, Fit) else list(value) for name, value in fits.items()}
    for i, (name, seeds) in enumerate(groups.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        for k, one in enumerate(seeds):
            text = f"{name}: A = {np.mean([f.A for f in seeds]):.3f}" if k == 0 else None
            _one(ax, one, colour, marker, text, until)
    first = next(iter(groups.values()))[0].series
    return dress(ax, first)


def _one(ax: Axes, fit: Fit, colour: str, marker: str, label: str | None, until: float | None) -> None:
    points = fit.series.take(fit.series.compute > 0)
    low, high = fit.window
    inside = (points.compute >= low) & (points.compute <= high)
    ax.plot(points.compute[inside], points.pass_rate[inside], marker, color=colour, ms=3.2, alpha=0.75)
    ax.plot(
        points.compute[~inside],
        points.pass_rate[~inside],
        marker,
        color=colour,
        mfc="none",
        ms=3.2,
        alpha=0.6,
    )
    fitted = np.geomspace(low, high, 100)
    ax.plot(
        fitted,
        sigmoid(fitted, fit.law),
        "-",
        color=colour,
        lw=1.8,
        marker=marker,
        markevery=[99],
        label=label,
    )
    end = float(until or points.compute[-1])
    if end > high:
        beyond = np.geomspace(high, end, 80)
        ax.plot(beyond, sigmoid(beyond, fit.law), "--", color=colour, lw=1.6)


def plot_seed_margin(fits: Sequence[Fit], ax: Axes | None = None, *, margin: float = 0.02) -> Axes:
    """Seeds of one recipe: each fitted A with its 90% interval, the mean and the band of +-margin around it
    (Fig. 8a)."""
    ax = new_axes(4.6, 3.2) if ax is None else ax
    centre = float(np.mean([one.A for one in fits]))
    ax.axhspan(
        centre - margin, centre + margin, color=COLOURS[0], alpha=0.12, lw=0, label=f"mean ± {margin:g}"
    )
    ax.axhline(centre, color=COLOURS[0], lw=1.2, ls="--", label=f"mean {centre:.3f}")
    for i, one in enumerate(fits):
        lower, upper = one.interval("A")
        ax.errorbar(
            i,
            one.A,
            yerr=[[one.A - lower], [upper - one.A]],
            fmt=MARKERS[0],
            color=COLOURS[1],
            capsize=3,
            ms=5,
        )
    ax.set_xticks(range(len(fits)), [one.series.name for one in fits], rotation=20, ha="right", fontsize=8)
    ax.set_ylabel("ceiling A (90% interval)")
    ax.set_xlim(-0.6, len(fits) - 0.4)
    ax.grid(True, axis="y", alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return ax
