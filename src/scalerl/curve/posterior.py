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

import numpy as np
from scipy.special import expit

from scalerl.curve.noise import Noise, Precision, lag_correlation, log_scale_integral, precision
from scalerl.curve.series import FloatArray

STEPS = 13  # nodes on each side of the start
FIRST_STEP, GROWTH = 0.35, 1.2  # of a standard deviation; grows into the tails
WIDE_B, WIDE_C = 30.0, 100.0  # sd of the Gaussian that keeps (B, c) finite where the data say nothing
LARGEST_STEP = 0.14  # of the gain A - R0: the step's length is judged locally


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


def march(problem: Problem, A: FloatArray, B: FloatArray, c: FloatArray, sigma: FloatArray) -> March:
    """Walk from (A, B, c) [m] both ways along the ridge, in steps of the length unit sigma [m]."""
    operators = precision(problem.compute, problem.noise.rho_nodes())
    m = len(A)
    start = np.clip(A, problem.R0 + 1e-4, 1.0 - 1e-9)
    first = _linearise(problem, operators, start, np.stack([B, c], -1))
    both = _doubled(problem)  # both directions at once: half as many passes
    sign = np.repeat([-1.0, 1.0], m)
    here, unit, step = np.tile(start, 2), np.tile(sigma, 2), FIRST_STEP
    ridge, tangent = np.tile(first.ridge, (2, 1)), np.tile(first.tangent, (2, 1))
    information = np.tile(first.information, 2)
    steps: list[tuple[FloatArray, _Local]] = []
    for _ in range(STEPS):
        length = step * unit / np.sqrt(np.maximum(information, 1e-300))
        length = np.minimum(length, LARGEST_STEP * np.maximum(here - both.R0, 0.02))
        there = np.clip(here + sign * length, both.R0 + 1e-4, 1.0)
        guess = ridge + tangent * (there - here)[:, None]
        guess[:, 0] = np.clip(guess[:, 0], 0.02, 30.0)
        local = _linearise(both, operators, there, guess)
        steps.append((there, local))
        here, step = there, step * GROWTH
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
    residual = w * (problem.y - problem.R0[:, None] - gain * g)
    slope = w * gain * g * (1 - g)
    columns = np.empty((len(A), 3, len(u)))
    np.multiply(slope, u, out=columns[:, 0])
    np.negative(slope, out=columns[:, 1])
    columns[:, 2] = residual
    extra_gram = _prior_rows(problem, theta)
    white = columns @ columns.transpose(0, 2, 1) + extra_gram
    ridge = theta + _solve(white[:, :2, :2], white[:, :2, 2])
    volume, r0_volume, tangent, information = _geometry(problem, columns, white, w * g)
    log_density, centre, spread = _integrate_noise(problem, operators, columns, extra_gram, theta)
    return _Local(log_density + volume, r0_volume, centre, spread, ridge, tangent, information)


def _geometry(
    problem: Problem, columns: FloatArray, white: FloatArray, rise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log volume of (A, B, c) in the white metric, R0's part of it, the ridge's tangent d(B, c)/dA, A's
    information."""
    inner = white[:, :2, :2]
    cross = (columns[:, :2] @ rise[:, :, None])[:, :, 0]
    slope = _solve(inner, cross)
    information = np.maximum((rise**2).sum(-1) - (slope * cross).sum(-1), 1e-30)
    volume = 0.5 * (np.log(_det(inner)) + np.log(information))
    if not problem.r0_fitted:
        return volume, np.zeros_like(volume), -slope, information
    before = problem.weight - rise
    cross0 = (columns[:, :2] @ before[:, :, None])[:, :, 0]
    slope0 = _solve(inner, cross0)
    own = (before**2).sum(-1) - (slope0 * cross0).sum(-1)
    shared = (before * rise).sum(-1) - (slope0 * cross).sum(-1)
    r0_volume = 0.5 * np.log(np.maximum(own - shared**2 / information, 1e-30))
    return volume, r0_volume, -slope, information


def _integrate_noise(
    problem: Problem,
    operators: Precision,
    columns: FloatArray,
    extra_gram: FloatArray,
    theta: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density of the node with (B, c), sigma and rho integrated; mean and covariance of (B, c) there."""
    m, _, n = columns.shape
    gram = operators.gram(columns) + extra_gram[..., None]
    a, b, d = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 1]
    p, q, rr = gram[:, 0, 2], gram[:, 1, 2], gram[:, 2, 2]
    det = np.maximum(a * d - b * b, 1e-300)
    step = np.stack([(d * p - b * q) / det, (a * q - b * p) / det], -1)  # [m, k, 2]
    sse = np.maximum(rr - step[..., 0] * p - step[..., 1] * q, 1e-300)
    degrees = n - 2
    log_k = (
        0.5 * operators.log_det
        - 0.5 * np.log(det)
        + log_scale_integral(sse, degrees, problem.noise.sigma_floor)
    )
    log_k = log_k + problem.noise.log_rho_prior()
    peak = log_k.max(-1, keepdims=True)
    share = np.exp(log_k - peak)
    total = share.sum(-1, keepdims=True)
    share = share / total
    centre = (share[..., None] * step).sum(1)
    scale = share * sse / max(degrees - 2, 1)
    around = step - centre[:, None]
    spread = np.empty((m, 2, 2))
    spread[:, 0, 0] = (scale * d / det).sum(-1) + (share * around[..., 0] ** 2).sum(-1)
    spread[:, 1, 1] = (scale * a / det).sum(-1) + (share * around[..., 1] ** 2).sum(-1)
    mixed = (-scale * b / det).sum(-1) + (share * around[..., 0] * around[..., 1]).sum(-1)
    spread[:, 0, 1] = spread[:, 1, 0] = mixed
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
    x = (matrix[:, 1, 1] * vector[:, 0] - matrix[:, 0, 1] * vector[:, 1]) / det
    y = (matrix[:, 0, 0] * vector[:, 1] - matrix[:, 0, 1] * vector[:, 0]) / det
    return np.stack([x, y], -1)


def search_scale(residual: FloatArray, fitted: int, noise: Noise) -> FloatArray:
    """Length unit of the march [m]: the residual sd, inflated by the correlation seen in the residuals."""
    n = residual.shape[-1]
    sigma = np.sqrt((residual**2).sum(-1) / max(n - fitted, 1))
    sigma = np.maximum(sigma, max(noise.sigma_floor, 1e-6))
    if noise.kind == "white":
        return sigma
    rho = lag_correlation(residual, fitted)
    return sigma * np.sqrt((1 + rho) / (1 - rho))
