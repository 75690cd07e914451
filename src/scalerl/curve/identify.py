"""How much more compute it takes until the ceiling is in the data: by simulation from the current fit."""

from __future__ import annotations

import numpy as np

from scalerl.curve.fitted import Fit
from scalerl.curve.integrate import posterior
from scalerl.curve.noise import Noise
from scalerl.curve.series import FloatArray
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.curve.varpro import Design, least_squares
from scalerl.curve.verdict import MARGIN

GROWTH = 1.2
FURTHEST = 30.0  # times the window's end
MOST_POINTS = 240


def needed_compute(fit: Fit, share: float = 0.8, curves: int = 48, seed: int = 0) -> float:
    """Compute at which `share` of curves like this one would be called identified; inf beyond 30 times the
    window.

    Assumes that the fit is right and that evaluations go on at the present spacing with the present noise.
    The window's end itself where the fit is identified already; NaN without a fit.
    """
    if not fit.fitted:
        return float("nan")
    end = fit.window[1]
    if fit.identified == "yes":
        return end
    steps = int(np.ceil(np.log(FURTHEST) / np.log(GROWTH)))
    low, high = 0, steps + 1  # identified from `high` on; steps + 1 stands for never
    while high - low > 1:
        middle = (low + high) // 2
        at = extended(fit.used.compute, end * GROWTH**middle)
        reached = share_identified(at, fit, curves, seed) >= share
        low, high = (low, middle) if reached else (middle, high)
    return float("inf") if high > steps else float(end * GROWTH**high)


def extended(compute: FloatArray, end: float) -> FloatArray:
    """The evaluations so far, then more at the recent spacing up to `end` (wider where they'd be too
    many)."""
    recent = np.diff(compute)[-8:]
    spacing = max(float(np.median(recent)), (end - compute[-1]) / MOST_POINTS)
    return np.concatenate([compute, np.arange(compute[-1] + spacing, end + 0.5 * spacing, spacing)])


def share_identified(compute: FloatArray, fit: Fit, curves: int, seed: int) -> float:
    """Share of simulated curves at `compute` [n] whose A comes out within the margin at 90%."""
    noise = ar1_noise(np.random.default_rng(seed), (curves, len(compute)), fit.sigma, fit.correlation)
    known = fit.r0_mode != "free"
    return identified_share(compute, fit.law, noise, known, fit.data.noise.kind != "white")


def identified_share(
    compute: FloatArray, law: Law, noise: FloatArray, r0_known: bool, correlated: bool = True
) -> float:
    """Share of curves law + noise [m, n] whose 90% interval of A is within the margin."""
    y = np.clip(sigmoid(compute, law) + noise, 0.0, 1.0)
    design = Design(np.log(compute), np.ones(len(compute)), r0_known)
    solution = least_squares(design, y, np.full(len(y), law.R0))
    post = posterior(compute, design, y, solution, Noise("ar1" if correlated else "white"))
    lower, upper = post.quantile_A(0.05), post.quantile_A(0.95)
    return float(np.mean(np.maximum(upper - solution.A, solution.A - lower) <= MARGIN))


def ar1_noise(rng: np.random.Generator, shape: tuple[int, int], sd: float, rho: float) -> FloatArray:
    """Stationary AR(1) noise [m, n] of standard deviation sd and lag-1 correlation rho."""
    white = rng.standard_normal(shape)
    noise = np.empty(shape)
    noise[:, 0] = white[:, 0]
    for i in range(1, shape[1]):
        noise[:, i] = rho * noise[:, i - 1] + np.sqrt(1 - rho**2) * white[:, i]
    return sd * noise
