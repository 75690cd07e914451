"""The posterior of a batch of curves as weighted nodes, and what is read off it: distribution functions,
quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit, ndtr

from scalerl.curve.noise import Noise
from scalerl.curve.posterior import Problem, march, search_scale
from scalerl.curve.series import FloatArray
from scalerl.curve.varpro import Design, Solution, polish

R0_NODES = 8
R0_REACH = 3.6  # of R0's standard deviation on both sides


@dataclass(frozen=True)
class Posterior:
    """Posterior of the law for m curves: K marches (one a value of R0) of J nodes in A each.

    A [m, K, J]; density [P, m, K, J] under P priors (below): along each march, with the march's own weight
    in it, so that
    its integral over A and the sum over K is 1; R0 [m, K]; centre [m, K, J, 2] and spread [m, K, J, 2, 2]:
    mean and
    covariance of (B, c) given the node, c = B (log C_mid - origin).

    P is 1 where R0 is known or measured. Where it's fitted there are two reference priors, with R0 flat and
    with half of
    Jeffreys' factor for it; each covers where the other falls short, and an interval's lower end is the
    lower of the
    two quantiles, its upper end the higher.
    """

    A: FloatArray
    R0: FloatArray
    density: FloatArray
    centre: FloatArray
    spread: FloatArray
    origin: float

    @cached_property
    def mass(self) -> FloatArray:
        """Probability of every node [P, m, K, J] (trapezoid in A); sums to 1 over K and J."""
        half = 0.5 * (self.density[..., 1:] + self.density[..., :-1]) * np.diff(self.A, axis=-1)
        mass = np.zeros_like(self.density)
        mass[..., 1:] += half / 2
        mass[..., :-1] += half / 2
        return mass

    def cdf_A(self, x: FloatArray) -> FloatArray:
        """P(A <= x) [P, m] for x [m] or [P, m]: exact integral of the piecewise linear density."""
        h = np.diff(self.A, axis=-1)
        f0, f1 = self.density[..., :-1], self.density[..., 1:]
        t = np.clip(x[..., None, None] - self.A[..., :-1], 0.0, h)
        slope = (f1 - f0) / np.where(h > 0, h, 1.0)
        return np.clip((f0 * t + 0.5 * slope * t * t).sum((-1, -2)), 0.0, 1.0)

    def quantile_A(self, level: float) -> FloatArray:
        """Quantile of A [m], by bisection; the outer one of the priors'."""
        shape = self.density.shape[:2]
        low = np.broadcast_to(self.A.min((-1, -2)), shape)
        high = np.broadcast_to(self.A.max((-1, -2)), shape)
        for _ in range(26):
            middle = 0.5 * (low + high)
            below = self.cdf_A(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return outer(0.5 * (low + high), level)

    def rate_at(self, log_compute: float) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of R at one compute, given the node [m, K, J]."""
        u = log_compute - self.origin
        R0 = self.R0[..., None]
        g = expit(self.centre[..., 0] * u - self.centre[..., 1])
        slope = (self.A - R0) * g * (1 - g)
        return R0 + (self.A - R0) * g, np.abs(slope) * np.sqrt(self._eta_variance(u))

    def gain_between(self, log_from: float, log_to: float) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of R(C_to) - R(C_from), given the node [m, K, J]."""
        R0, pull = self.R0[..., None], []
        rate, slopes = [], []
        for log_compute in (log_from, log_to):
            u = log_compute - self.origin
            g = expit(self.centre[..., 0] * u - self.centre[..., 1])
            rate.append((self.A - R0) * g)
            slopes.append((self.A - R0) * g * (1 - g))
            pull.append(u)
        by_B = slopes[1] * pull[1] - slopes[0] * pull[0]
        by_c = slopes[0] - slopes[1]
        s = self.spread
        variance = by_B**2 * s[..., 0, 0] + 2 * by_B * by_c * s[..., 0, 1] + by_c**2 * s[..., 1, 1]
        return rate[1] - rate[0], np.sqrt(np.maximum(variance, 0.0))

    def draw(self, size: int, rng: np.random.Generator, curve: int = 0) -> tuple[FloatArray, ...]:
        """`size` draws of (A, B, C_mid, R0) of one curve of the batch, from the mean of the priors."""
        mass = self.mass.mean(0)[curve]
        k, j = np.unravel_index(rng.choice(mass.size, size=size, p=(mass / mass.sum()).ravel()), mass.shape)
        width = np.gradient(self.A[curve], axis=-1)[k, j]
        A = np.clip(self.A[curve, k, j] + width * (rng.random(size) - 0.5), self.R0[curve, k] + 1e-6, 1.0)
        factor = _cholesky(self.spread[curve, k, j])
        theta = self.centre[curve, k, j] + (factor @ rng.standard_normal((size, 2, 1)))[..., 0]
        B = np.clip(theta[:, 0], 0.05, 30.0)
        return A, B, np.exp(self.origin + theta[:, 1] / B), self.R0[curve, k]

    def log_mid(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of log C_mid, given the node."""
        return self.log_compute_at(None)

    def log_compute_at(self, rate: float | None) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of log of the compute that reaches `rate` (None: half of the gain); inf where A
        doesn't reach it."""
        R0 = self.R0[..., None]
        B, c = np.maximum(self.centre[..., 0], 0.02), self.centre[..., 1]
        share = 0.5 if rate is None else (rate - R0) / np.maximum(self.A - R0, 1e-12)
        inside = (share > 0) & (share < 1)
        shift = logit(np.where(inside, share, 0.5))
        log_c = (c + shift) / B
        variance = (
            self.spread[..., 0, 0] * log_c**2 - 2 * log_c * self.spread[..., 0, 1] + self.spread[..., 1, 1]
        ) / B**2
        centre = np.where(inside, self.origin + log_c, np.where(share <= 0, -np.inf, np.inf))
        return centre, np.sqrt(np.maximum(variance, 0.0))

    def B(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of B, given the node."""
        return self.centre[..., 0], np.sqrt(self.spread[..., 0, 0])

    def _eta_variance(self, u: float) -> FloatArray:
        s = self.spread
        return np.maximum(u * u * s[..., 0, 0] - 2 * u * s[..., 0, 1] + s[..., 1, 1], 0.0)

    def smoothed(self, centre: FloatArray, sd: FloatArray) -> FloatArray:
        """sd [m, K, J] widened by the distance between nodes, so that a sum over nodes has no gaps."""
        finite = np.where(np.isfinite(centre), centre, 0.0)
        along = np.gradient(finite, axis=-1)
        across = np.gradient(finite, axis=-2) if finite.shape[-2] > 1 else np.zeros_like(finite)
        return np.sqrt(sd**2 + along**2 / 12 + across**2 / 12) + 1e-12

    def cdf(self, centre: FloatArray, sd: FloatArray, x: FloatArray) -> FloatArray:
        """P(quantity <= x) [P, m] for x [m], of a quantity that is normal (centre, sd) given the node."""
        finite = np.isfinite(centre)
        z = (x[:, None, None] - np.where(finite, centre, 0.0)) / self.smoothed(centre, sd)
        return np.asarray((self.mass * np.where(finite, ndtr(z), centre < 0)).sum((-1, -2)))

    def quantile(self, centre: FloatArray, sd: FloatArray, level: float) -> FloatArray:
        """Quantile [m] of such a quantity, by bisection, the outer one of the priors'; inf where it lies
        there."""
        each = [self._quantile(mass, centre, sd, level) for mass in self.mass]
        return outer(np.stack(each), level)

    def _quantile(self, mass: FloatArray, centre: FloatArray, sd: FloatArray, level: float) -> FloatArray:
        wide = self.smoothed(centre, sd)
        finite = np.isfinite(centre)
        middle = np.where(finite, centre, 0.0)
        at_minus = (mass * (~finite & (centre < 0))).sum((-1, -2))
        heavy = finite & (mass > 1e-9)
        low = np.where(heavy, middle - 6 * wide, np.inf).min((-1, -2))
        high = np.where(heavy, middle + 6 * wide, -np.inf).max((-1, -2))
        reachable = at_minus + (mass * finite).sum((-1, -2))
        answer = np.where(reachable < level, np.inf, np.where(at_minus > level, -np.inf, 0.0))
        solve = (answer == 0) & np.isfinite(low) & np.isfinite(high)
        low, high = np.where(solve, low, 0.0), np.where(solve, high, 0.0)
        for _ in range(34):
            x = 0.5 * (low + high)
            z = (x[:, None, None] - middle) / wide
            below = at_minus + (mass * np.where(finite, ndtr(z), 0.0)).sum((-1, -2)) < level
            low, high = np.where(below, x, low), np.where(below, high, x)
        return np.where(solve, 0.5 * (low + high), answer)


def outer(quantiles: FloatArray, level: float) -> FloatArray:
    """Of the priors' quantiles [P, m] the lowest for a level below one half, else the highest [m]."""
    return np.asarray(quantiles.min(0) if level < 0.5 else quantiles.max(0))


def _cholesky(matrix: FloatArray) -> FloatArray:
    """Lower factors of positive semi-definite matrices [..., 2, 2]."""
    factor = np.zeros_like(matrix)
    factor[..., 0, 0] = np.sqrt(np.maximum(matrix[..., 0, 0], 1e-30))
    factor[..., 1, 0] = matrix[..., 1, 0] / factor[..., 0, 0]
    factor[..., 1, 1] = np.sqrt(np.maximum(matrix[..., 1, 1] - factor[..., 1, 0] ** 2, 0.0))
    return factor


@dataclass(frozen=True)
class R0Prior:
    """What is known of R0 apart from the window: measured value and its standard error [m]; None: free in
    [0, 1]."""

    value: FloatArray
    stderr: FloatArray


def posterior(
    compute: FloatArray,
    design: Design,
    y: FloatArray,
    solution: Solution,
    noise: Noise,
    r0_prior: R0Prior | None = None,
) -> Posterior:
    """Posterior of the law for curves y [m, n] at `compute` [n], around their least-squares solution.

    design: of the window's points only (no row for a measured R0: it comes as r0_prior). design.r0_known: R0
    is the
    solution's, without error; else it's integrated over.
    """
    m = len(y)
    origin = float(design.x.mean())
    u = design.x - origin
    B = np.exp(solution.log_B)
    residual = _residual(design, y, solution)
    fitted = 3 if design.r0_known else 4
    scale = search_scale(residual, fitted, noise)
    if design.r0_known:
        R0, B0, log_mid, A = solution.R0[:, None], B[:, None], solution.log_mid[:, None], solution.A[:, None]
    else:
        R0 = _r0_grid(design, solution, scale, r0_prior)
        A, B0, log_mid = _refit_at(design, y, solution, R0)
    k = R0.shape[1]
    flat = Problem(
        u=u,
        weight=design.weight,
        compute=compute,
        y=np.repeat(y, k, axis=0),
        R0=R0.ravel(),
        noise=noise,
        r0_fitted=not design.r0_known,
        unit=np.repeat(scale, k),
        prior=None if design.prior is None else np.array(design.prior[:4]) - np.array([0, 0, origin, 0]),
        prior_sigma=None if design.prior is None else np.full(m * k, design.prior[4]),
    )
    c = B0 * (log_mid - origin)
    found = march(flat, A.ravel(), B0.ravel(), c.ravel(), np.repeat(scale, k))
    shape = (m, k, found.A.shape[-1])
    nodes, log_density = found.A.reshape(shape), found.log_density.reshape(shape)
    half = 0.5 * found.r0_volume.reshape(shape)
    if r0_prior is not None and k > 1:
        log_density = (
            log_density - 0.5 * (((R0 - r0_prior.value[:, None]) / r0_prior.stderr[:, None]) ** 2)[..., None]
        )
    priors = np.stack([log_density, log_density + half] if k > 1 and r0_prior is None else [log_density])
    density = np.exp(priors - priors.max((-1, -2), keepdims=True))
    if k > 1:
        density = density * _trapezoid_weights(R0)[..., None]
    total = (0.5 * (density[..., 1:] + density[..., :-1]) * np.diff(nodes, axis=-1)).sum((-1, -2))
    density = density / np.maximum(total, 1e-300)[..., None, None]
    return Posterior(
        nodes, R0, density, found.centre.reshape(*shape, 2), found.spread.reshape(*shape, 2, 2), origin
    )


def _residual(design: Design, y: FloatArray, solution: Solution) -> FloatArray:
    g = expit(np.exp(solution.log_B)[:, None] * (design.x - solution.log_mid[:, None]))
    return design.weight * (y - solution.R0[:, None] - (solution.A - solution.R0)[:, None] * g)


def _r0_grid(design: Design, solution: Solution, scale: FloatArray, r0_prior: R0Prior | None) -> FloatArray:
    """Values of R0 to march at [m, K]: its standard deviation from the linearised fit, cut off at 0 and at
    the curve."""
    B = np.exp(solution.log_B)[:, None]
    distance = design.x - solution.log_mid[:, None]
    g = expit(B * distance)
    gain = np.maximum(solution.A - solution.R0, 0.01)[:, None]
    slope = gain * g * (1 - g)
    columns = design.weight * np.stack([1 - g, g, slope * B * distance, -slope * B], 1)
    information = columns @ columns.transpose(0, 2, 1) / scale[:, None, None] ** 2
    if r0_prior is not None:
        information[:, 0, 0] += r0_prior.stderr**-2
    ridge = 1e-9 * np.einsum("mii->mi", information) + 1e-12
    sd = np.sqrt(np.maximum(np.linalg.inv(information + ridge[:, :, None] * np.eye(4))[:, 0, 0], 1e-10))
    first = solution.R0 + (solution.A - solution.R0) * g[:, 0]
    low = np.clip(solution.R0 - R0_REACH * sd, 0.0, 1.0)
    high = np.minimum(
        solution.R0 + R0_REACH * sd, np.maximum(first + 2 * scale / design.weight[0], low + 1e-4)
    )
    high = np.clip(high, low + 1e-4, np.maximum(solution.A - 1e-3, low + 1e-4))
    return low[:, None] + (high - low)[:, None] * np.linspace(0, 1, R0_NODES)


def _refit_at(
    design: Design, y: FloatArray, solution: Solution, R0: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least squares at every given R0 [m, K], started from the joint solution: A, B, log C_mid [m, K]."""
    k = R0.shape[1]
    known = Design(design.x, design.weight, True, design.prior)
    at = polish(
        known,
        np.repeat(y, k, 0),
        R0.ravel(),
        np.repeat(solution.log_B, k),
        np.repeat(solution.log_mid, k),
        steps=12,
    )
    return at.A.reshape(R0.shape), np.exp(at.log_B).reshape(R0.shape), at.log_mid.reshape(R0.shape)


def _trapezoid_weights(grid: FloatArray) -> FloatArray:
    step = np.diff(grid, axis=-1)
    weights = np.zeros_like(grid)
    weights[:, 1:] += step / 2
    weights[:, :-1] += step / 2
    return weights
