"""The source's own procedure (A.5): a grid over A and C_mid, B by SciPy's curve_fit in each cell.

It gives no interval. The grid is in GPU-hours, and kept as it is described: other units of compute are
refused, since a grid scaled to them would be another procedure under the source's name.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit
from scipy.special import expit

from scalerl.curve.series import FloatArray, Series
from scalerl.curve.sigmoid import Law
from scalerl.errors import UserError

A_GRID = np.round(np.arange(0.450, 0.8001, 0.005), 3)
C_MID_GRID = np.linspace(100.0, 40000.0, 100)
GPU_HOURS = (
    "device_hours",
    "compute",
)  # axes taken for GPU-hours; bare numbers ('compute') have no unit of their own


def demand_gpu_hours(used: Series) -> None:
    """UserError where the grid can't hold the answer: another unit of compute, or a window below its lowest
    C_mid."""
    if used.axis not in GPU_HOURS:
        raise UserError(
            f"{used.name}: method 'grid' is the source's procedure, C_mid on 100 to 40,000 GPU-hours; this "
            f"curve is in {used.unit}: use --method varpro, or --axis device_hours"
        )
    if used.compute[-1] < C_MID_GRID[0]:
        raise UserError(
            f"{used.name}: method 'grid' looks for C_mid on 100 to 40,000 GPU-hours, and this window ends at "
            f"{used.compute[-1]:.4g}: use --method varpro"
        )


def on_the_edge(law: Law) -> list[str]:
    """Which of A and C_mid lie on an edge of the grid, where the best cell may not be the best law."""
    ends = {"A": (A_GRID[[0, -1]], law.A), "C_mid": (C_MID_GRID[[0, -1]], law.C_mid)}
    return [name for name, (edge, value) in ends.items() if value in edge]


def grid_fit(
    compute: FloatArray,
    pass_rate: FloatArray,
    R0: float,
    a_grid: FloatArray = A_GRID,
    c_mid_grid: FloatArray = C_MID_GRID,
) -> Law:
    """The cell of (A, C_mid) with the least sum of squares, B fitted from curve_fit's default start (1.0).

    compute in GPU-hours (the grid's unit), pass_rate [n]. 7,100 SciPy fits: some 25 s.
    """
    best = (np.inf, Law(np.nan, np.nan, np.nan, R0))
    for A in a_grid:
        for C_mid in c_mid_grid:

            def model(c: FloatArray, b: float, A: float = A, C_mid: float = C_mid) -> FloatArray:
                return R0 + (A - R0) / (1 + (C_mid / c) ** b)

            try:
                with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
                    warnings.simplefilter("ignore", OptimizeWarning)
                    (B,), _ = curve_fit(model, compute, pass_rate, p0=[1.0])  # SciPy's default start
                sse = float(np.sum((pass_rate - model(compute, B)) ** 2))
            except RuntimeError:
                continue  # curve_fit gave up in this cell, as it does for the source: another one wins
            if sse < best[0]:
                best = (sse, Law(float(A), float(B), float(C_mid), R0))
    return best[1]


def grid_fit_fast(
    compute: FloatArray,
    y: FloatArray,
    R0: float,
    a_grid: FloatArray = A_GRID,
    c_mid_grid: FloatArray = C_MID_GRID,
) -> FloatArray:
    """Least sum of squares over the same grid for curves y [m, n], B solved by vectorised Gauss-Newton: sse
    [m].

    The equivalent of `grid_fit` for thousands of curves (checked against it in the tests): for each cell the
    best B in (0.02, 30) from 1.0, so never above what curve_fit finds there.
    """
    x = np.log(compute)
    u = x[None, :] - np.log(c_mid_grid)[:, None]  # [cells of C_mid, n]
    best = np.full(len(y), np.inf)
    for A in a_grid:
        gain = A - R0
        if gain == 0:
            best = np.minimum(best, ((y - R0) ** 2).sum(-1))
            continue
        target = (y - R0)[:, None, :]
        log_b = np.zeros((len(y), len(c_mid_grid), 1))
        for _ in range(12):
            B = np.exp(log_b)
            g = expit(B * u)
            slope = gain * g * (1 - g) * B * u
            step = (slope * (target - gain * g)).sum(-1) / np.maximum((slope**2).sum(-1), 1e-30)
            log_b = np.clip(log_b + np.clip(step, -0.7, 0.7)[..., None], -4.0, 3.4)
        residual = target - gain * expit(np.exp(log_b) * u)
        best = np.minimum(best, (residual**2).sum(-1).min(-1))
    return best
