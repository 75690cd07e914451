"""What the data say about the law: a posterior by marching along A, everything else integrated.

Given A and R0 Eq. 1 is a logistic regression in (B, c = B log C_mid): nearly linear in R, so a Gauss-Newton
step and a Gaussian around it are nearly exact. The march starts at the least-squares A and walks both ways
along the ridge of best (B, c), in steps of equal statistical length; at every node the noise scale is
integrated in closed form and the correlation on a grid. R0, where it isn't known, is a grid of such marches.
The prior on the law is Jeffreys' (the volume that the curve itself sweeps), which treats all parametrisations
alike and whose intervals hold at about their rate; the weak prior on log B and log C_mid, where wanted, comes
as two more observations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from scalerl.curve.noise import (
    Noise,
    Precision,
    lag_correlation,
    log_scale_integral,
    precision,
    row_products,
)
from scalerl.curve.series import FloatArray

WIDE_B, WIDE_C = 30.0, 100.0  # sd of the Gaussian that keeps (B, c) finite where the data say nothing
LARGEST_STEP = 0.14  # of the gain A - R0: the step's length is judged locally


class Pace(NamedTuple):
    """Steps of a march on each side of its start: the first one (in standard deviations), its growth, their
    number."""

    first: float
    growth: float
    steps: int


FINE = Pace(0.5, 1.2, 11)  # quantiles within 0.5% of the interval's width of a march in steps of 0.1
COARSE = Pace(0.6, 1.3, 8)  # for a mixture of marches, which smooths: within 0.3%


@dataclass(frozen=True)
class Problem:
    """Curves y [m, n] with R0 known [m] on a shared design: u = log C - origin [n], weight w [n]."""

    u: FloatArray
    weight: FloatArray
    compute: FloatArray
    y: FloatArray
    R0: FloatArray
    noise: Noise
    r0_fitted: bool
    unit: FloatArray  # noise sd [m], the march's unit of length
    prior: FloatArray | None = (
        None  # rows (mean log B, sd, mean log C_mid - origin, sd), sigma [m] in prior_sigma
    )
    prior_sigma: FloatArray | None = None


@dataclass(frozen=True)
class _Local:
    """The model linearised at (A, B, c) for m curves: residual [m, n], jacobian columns [m, n], and the step
    to the ridge."""

    log_density: FloatArray
    r0_volume: FloatArray
    centre: FloatArray
    spread: FloatArray
    ridge: FloatArray
    tangent: FloatArray
    information: FloatArray


@dataclass(frozen=True)
class March:
    """Nodes sorted by A for m curves: A, log_density, r0_volume [m, J]; centre [m, J, 2], spread [m, J, 2,
    2] of (B, c).

    r0_volume is the log of the R0 part of Jeffreys' volume (0 where R0 is known), not in log_density.
    """

    A: FloatArray
    log_density: FloatArray
    r0_volume: FloatArray
    centre: FloatArray
    spread: FloatArray


def march(
    problem: Problem, A: FloatArray, B: FloatArray, c: FloatArray, sigma: FloatArray, pace: Pace = FINE
) -> March:
    """Walk from (A, B, c) [m] both ways along the ridge, in steps of the length unit sigma [m]."""
    operators = precision(problem.compute, problem.noise)
    m = len(A)
    start = np.clip(A, problem.R0 + 1e-4, 1.0 - 1e-9)
    first = _linearise(problem, operators, start, np.stack([B, c], -1))
    both = _doubled(problem)  # both directions at once: half as many passes
    sign = np.repeat([-1.0, 1.0], m)
    here, unit, step = np.tile(start, 2), np.tile(sigma, 2), pace.first
    ridge, tangent = np.tile(first.ridge, (2, 1)), np.tile(first.tangent, (2, 1))
    information = np.tile(first.information, 2)
    steps: list[tuple[FloatArray, _Local]] = []
    for _ in range(pace.steps):
        length = step * unit / np.sqrt(np.maximum(information, 1e-300))
        length = np.minimum(length, LARGEST_STEP * np.maximum(here - both.R0, 0.02))
        there = np.clip(here + sign * length, both.R0 + 1e-4, 1.0)
        guess = ridge + tangent * (there - here)[:, None]
        guess[:, 0] = np.clip(guess[:, 0], 0.02, 30.0)
        local = _linearise(both, operators, there, guess)
        steps.append((there, local))
        here, step = there, step * pace.growth
        ridge, tangent, information = local.ridge, local.tangent, local.information

    def sorted_by_A(at_start: FloatArray, along: list[FloatArray]) -> FloatArray:
        return np.stack([*(part[:m] for part in reversed(along)), at_start, *(part[m:] for part in along)], 1)

    return March(
        sorted_by_A(start, [a for a, _ in steps]),
        sorted_by_A(first.log_density, [part.log_density for _, part in steps]),
        sorted_by_A(first.r0_volume, [part.r0_volume for _, part in steps]),
        sorted_by_A(first.centre, [part.centre for _, part in steps]),
        sorted_by_A(first.spread, [part.spread for _, part in steps]),
    )


def _doubled(problem: Problem) -> Problem:
    """The same curves twice, for the two directions of the march."""
    sigma = problem.prior_sigma
    return replace(
        problem,
        y=np.tile(problem.y, (2, 1)),
        R0=np.tile(problem.R0, 2),
        unit=np.tile(problem.unit, 2),
        prior_sigma=None if sigma is None else np.tile(sigma, 2),
    )


def _linearise(problem: Problem, operators: Precision, A: FloatArray, theta: FloatArray) -> _Local:
    """One node for every curve: A [m], theta = (B, c) [m, 2]."""
    w, u = problem.weight, problem.u
    B, c = theta[:, :1], theta[:, 1:]
    g = expit(B * u - c)
    gain = (A - problem.R0)[:, None]
    columns = np.empty((5 if problem.r0_fitted else 4, *g.shape))  # d/dB, d/dc, residual, d/dA, d/dR0
    np.multiply(w, g, out=columns[3])
    slope = gain * columns[3]
    np.subtract(problem.y - problem.R0[:, None], gain * g, out=columns[2])
    columns[2] *= w
    slope *= 1 - g
    np.multiply(slope, u, out=columns[0])
    np.negative(slope, out=columns[1])
    if problem.r0_fitted:
        np.subtract(w, columns[3], out=columns[4])
    products = _products(columns)
    extra = _prior_rows(problem, theta)
    fitted = products[:, :3, :3] + extra
    ridge = theta + _solve(fitted[:, :2, :2], fitted[:, :2, 2])
    volume, r0_volume, tangent, information = _geometry(problem, products, fitted[:, :2, :2])
    gram = operators.gram(columns[:3], products[:, :3, :3]) + extra[..., None]
    floor = problem.noise.sigma_floor
    log_density, centre, spread = _integrate_noise(operators.constant, floor, gram, len(u), theta)
    return _Local(log_density + volume, r0_volume, centre, spread, ridge, tangent, information)


def _products(columns: FloatArray) -> FloatArray:
    """Products of columns [p, m, n] over the points: [m, p, p]."""
    p, m, _ = columns.shape
    out = np.empty((m, p, p))
    for i in range(p):
        for j in range(i + 1):
            out[:, i, j] = out[:, j, i] = row_products(columns[i], columns[j])
    return out


def _geometry(
    problem: Problem, products: FloatArray, inner: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log volume of (A, B, c) in the white metric, R0's part of it, the ridge's tangent d(B, c)/dA, A's
    information; from the products of the columns (B, c, residual, A, R0) [m, 5, 5] and `inner`, those of (B,
    c) with the prior's."""
    cross = products[:, :2, 3]
    slope = _solve(inner, cross)
    information = np.maximum(products[:, 3, 3] - (slope * cross).sum(-1), 1e-30)
    volume = 0.5 * (np.log(_det(inner)) + np.log(information))
    if not problem.r0_fitted:
        return volume, np.zeros_like(volume), -slope, information
    cross0 = products[:, :2, 4]
    slope0 = _solve(inner, cross0)
    own = products[:, 4, 4] - (slope0 * cross0).sum(-1)
    shared = products[:, 3, 4] - (slope0 * cross).sum(-1)
    r0_volume = 0.5 * np.log(np.maximum(own - shared**2 / information, 1e-30))
    return volume, r0_volume, -slope, information


def _integrate_noise(
    constant: FloatArray, floor: float, gram: FloatArray, points: int, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density of the node with (B, c), sigma and rho integrated; mean and covariance of (B, c) there.

    constant [k]: log prior and half the log determinant of each correlation; floor: the least sigma; gram [m,
    3, 3, k]: products of the columns (B, c, residual) in the metric of each correlation.
    """
    a, b, d = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 1]
    p, q, rr = gram[:, 0, 2], gram[:, 1, 2], gram[:, 2, 2]
    det = np.maximum(a * d - b * b, 1e-300)
    step_b, step_c = (d * p - b * q) / det, (a * q - b * p) / det  # [m, k]
    sse = np.maximum(rr - step_b * p - step_c * q, 1e-300)
    degrees = points - 2
    log_k = constant - 0.5 * np.log(det) + log_scale_integral(sse, degrees, floor)
    peak = log_k.max(-1, keepdims=True)
    share = np.exp(log_k - peak)
    total = share.sum(-1, keepdims=True)
    share /= total
    centre = np.empty((len(theta), 2))
    centre[:, 0], centre[:, 1] = (share * step_b).sum(-1), (share * step_c).sum(-1)
    scale = share * sse / (max(degrees - 2, 1) * det)
    off_b, off_c = step_b - centre[:, :1], step_c - centre[:, 1:]
    spread = np.empty((len(theta), 2, 2))
    spread[:, 0, 0] = (scale * d + share * off_b * off_b).sum(-1)
    spread[:, 1, 1] = (scale * a + share * off_c * off_c).sum(-1)
    spread[:, 0, 1] = spread[:, 1, 0] = (share * off_b * off_c - scale * b).sum(-1)
    return peak[:, 0] + np.log(total[:, 0]), theta + centre, spread


def _prior_rows(problem: Problem, theta: FloatArray) -> FloatArray:
    """Gram matrix [m, 3, 3] over (B, c, residual) of what is known besides the points.

    A very wide Gaussian around theta keeps curves without a slope (steps, flat ones) regular; then the weak
    prior's two rows, where there is one.
    """
    m = len(theta)
    gram = np.zeros((m, 3, 3))
    gram[:, 0, 0], gram[:, 1, 1] = (problem.unit / WIDE_B) ** 2, (problem.unit / WIDE_C) ** 2
    if problem.prior is None or problem.prior_sigma is None:
        return gram
    mean_b, sd_b, mean_m, sd_m = problem.prior
    B = np.maximum(theta[:, 0], 1e-3)
    mid = theta[:, 1] / B
    rows = np.zeros((m, 2, 3))
    rows[:, 0, 0], rows[:, 0, 2] = 1 / (B * sd_b), (mean_b - np.log(B)) / sd_b
    rows[:, 1, 0], rows[:, 1, 1], rows[:, 1, 2] = -mid / (B * sd_m), 1 / (B * sd_m), (mean_m - mid) / sd_m
    rows = rows * problem.prior_sigma[:, None, None]
    return gram + rows.transpose(0, 2, 1) @ rows


def _det(matrix: FloatArray) -> FloatArray:
    return np.maximum(matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] ** 2, 1e-300)


def _solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    det = _det(matrix)
    out = np.empty_like(vector)
    out[:, 0] = (matrix[:, 1, 1] * vector[:, 0] - matrix[:, 0, 1] * vector[:, 1]) / det
    out[:, 1] = (matrix[:, 0, 0] * vector[:, 1] - matrix[:, 0, 1] * vector[:, 0]) / det
    return out


def search_scale(residual: FloatArray, fitted: int, noise: Noise) -> FloatArray:
    """Length unit of the march [m]: the residual sd, inflated by the correlation seen in the residuals."""
    n = residual.shape[-1]
    sigma = np.sqrt((residual**2).sum(-1) / max(n - fitted, 1))
    sigma = np.maximum(sigma, max(noise.sigma_floor, 1e-6))
    if noise.kind == "white":
        return sigma
    rho = lag_correlation(residual, fitted)
    return sigma * np.sqrt((1 + rho) / (1 - rho))
