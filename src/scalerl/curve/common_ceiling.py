"""Efficiency at a common ceiling (A.8): refit with A fixed to the pair's mean, then compare B and C_mid."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares as levenberg
from scipy.special import expit
from scipy.stats import t as student

from scalerl.curve.comparison import Efficiency, Recipe
from scalerl.curve.fitted import Fit, Interval
from scalerl.curve.series import FloatArray


def refit_at(fit: Fit, A: float) -> tuple[FloatArray, FloatArray]:
    """(log B, log C_mid) with A and R0 fixed, and their errors (sd), correlated noise allowed for by
    inflation."""
    x, y, w = np.log(fit.used.compute), fit.used.pass_rate, fit.data.weights.weight

    def residual(theta: FloatArray) -> FloatArray:
        g = expit(np.exp(theta[0]) * (x - theta[1]))
        return np.asarray(w * (fit.R0 + (A - fit.R0) * g - y))

    start = np.array([np.log(fit.B), np.log(fit.C_mid)])
    found = levenberg(residual, start, bounds=(start - 4.0, start + 4.0), x_scale="jac")
    inflation = (1 + fit.correlation) / (1 - fit.correlation)
    variance = 2 * found.cost / max(len(x) - 2, 1) * inflation
    covariance = np.linalg.inv(found.jac.T @ found.jac + 1e-12 * np.eye(2)) * variance
    return found.x, np.sqrt(np.diag(covariance))


def efficiency(a: Recipe, b: Recipe) -> Efficiency:
    """Compare B and C_mid of two recipes at the mean of all their A.

    The error comes from the spread between seeds, pooled over both, where there are two seeds of one at
    least; else from the fits' own errors, and `spread_from` says so.
    """
    common = 0.5 * (a.mean("A") + b.mean("A"))
    groups = [[refit_at(one, common) for one in recipe.fits] for recipe in (a, b)]
    ratios = [_ratio(groups, k) for k in (0, 1)]
    degrees = sum(len(group) - 1 for group in groups)
    (b_ratio, b_ends, b_p), (c_ratio, c_ends, c_p) = ratios
    source = "seeds" if degrees else "fits"
    return Efficiency(a.name, b.name, common, b_ratio, b_ends, b_p, c_ratio, c_ends, c_p, source)


def _ratio(groups: list[list[tuple[FloatArray, FloatArray]]], k: int) -> tuple[float, Interval, float]:
    """Ratio first / second of exp(parameter k), its 95% interval and p-value."""
    values = [np.array([theta[k] for theta, _ in group]) for group in groups]
    difference = float(values[0].mean() - values[1].mean())
    degrees = sum(len(v) - 1 for v in values)
    if degrees:
        pooled = sum(float(((v - v.mean()) ** 2).sum()) for v in values) / degrees
        error = float(np.sqrt(pooled * sum(1 / len(v) for v in values)))
    else:
        degrees = 30
        error = float(np.sqrt(sum(float(group[0][1][k]) ** 2 for group in groups)))
    half = float(student.ppf(0.975, degrees)) * error
    ends = Interval(float(np.exp(difference - half)), float(np.exp(difference + half)))
    p = float(2 * student.sf(abs(difference) / max(error, 1e-12), degrees))
    return float(np.exp(difference)), ends, p
