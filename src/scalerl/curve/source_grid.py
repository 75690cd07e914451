"""The source's own procedure (A.5): a grid over A and C_mid, B by SciPy's curve_fit at each cell; no
interval."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit
from scipy.special import expit

from scalerl.curve.series import FloatArray
from scalerl.curve.sigmoid import Law

A_GRID = np.round(np.arange(0.450, 0.8001, 0.005), 3)
C_MID_GRID = np.linspace(100.0, 40000.0, 100)


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
