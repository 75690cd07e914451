"""Figures of the law itself: what each parameter does (Figs. 3, 12, 13) and the linearised axis (Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalerl.curve.common_ceiling import refit_at
from scalerl.curve.fitted import Fit
from scalerl.curve.plot import COLOURS, MARKERS, new_axes
from scalerl.curve.sigmoid import Law, linearise, sigmoid
from scalerl.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", "-.", ":")


def plot_effect(
    law: Law, parameter: str, values: Sequence[float], ax: Axes | None = None, *, span: float = 30.0
) -> Axes:
    """The law with one parameter ('A', 'B', 'C_mid' or 'R0') at several values, the others fixed (Figs. 3,
    12, 13).

    span: the compute axis goes from C_mid / span to C_mid * span of the given law.
    """
    if parameter not in Law._fields:
        raise UserError(f"plot_effect: parameter {parameter!r}; use one of {', '.join(Law._fields)}")
    ax = new_axes(4.6, 3.2) if ax is None else ax
    grid = np.geomspace(law.C_mid / span, law.C_mid * span, 200)
    for i, value in enumerate(values):
        changed = law._replace(**{parameter: float(value)})
        style, colour = STYLES[i % len(STYLES)], COLOURS[i % len(COLOURS)]
        ax.plot(grid, sigmoid(grid, changed), style, color=colour, lw=1.8, label=f"{parameter} = {value:g}")
        half = changed.R0 + 0.5 * (changed.A - changed.R0)
        ax.plot([changed.C_mid], [half], MARKERS[i % len(MARKERS)], color=colour, ms=5)
    _plain(ax)
    ax.set_xlabel("compute (marks: C_mid)")
    ax.set_ylabel("pass rate")
    return ax


def plot_linearised(
    fits: Mapping[str, Fit], ax: Axes | None = None, *, common_A: float | None = None
) -> Axes:
    """Leave-one-out with the linearised axis: F(R) = C^B at a common ceiling, a line of slope B per run
    (Fig. 7).

    common_A: the ceiling that every run is refitted with (default: the mean of their A); points outside (R0,
    A) have no place on this axis and are left out. Lines are drawn at C_mid = 1 so that only the slope
    differs.
    """
    ax = new_axes(5.4, 3.8) if ax is None else ax
    A = float(np.mean([one.A for one in fits.values()])) if common_A is None else common_A
    for i, (name, one) in enumerate(fits.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        (log_B, log_mid), _ = refit_at(one, A)
        law = Law(A, float(np.exp(log_B)), float(np.exp(log_mid)), one.R0)
        relative = one.used.compute / law.C_mid
        value = linearise(one.used.pass_rate, law._replace(C_mid=1.0))
        seen = np.isfinite(value)
        ax.plot(relative[seen], value[seen], marker, color=colour, ms=3.5, alpha=0.75)
        ends = np.array([relative.min(), relative.max()])
        ax.plot(
            ends, ends**law.B, STYLES[i % len(STYLES)], color=colour, lw=1.8, label=f"{name}: B = {law.B:.2f}"
        )
    _plain(ax)
    ax.set_yscale("log")
    ax.set_xlabel("compute / C_mid")
    ax.set_ylabel(f"F(R) at A = {A:.3f}")
    return ax


def _plain(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.grid(True, which="major", alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
