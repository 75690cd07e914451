"""The posterior of a batch of curves as weighted nodes, and what is read off it: distribution functions,
quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtr

from scalerl.curve.noise import Noise
from scalerl.curve.posterior import Problem, march, search_scale
from scalerl.curve.series import FloatArray
from scalerl.curve.varpro import Design, Solution, polish

R0_NODES = 9
R0_REACH = 3.6  # of R0's standard deviation on both sides


@dataclass(frozen=True)
class Posterior:
    """Posterior of the law for m curves: K marches (one a value of R0) of J nodes in A each.

    A, density [m, K, J]: density along each march, with the march's own weight in it, so that its integral
    over A and
    the sum over K is 1; R0 [m, K]; centre [m, K, J, 2] and spread [m, K, J, 2, 2]: mean and covariance of
    (B, c) given the
    node, c = B (log C_mid - origin).
    """

    A: FloatArray
    R0: FloatArray
    density: FloatArray
    centre: FloatArray
    spread: FloatArray
    origin: float

    @property
    def mass(self) -> FloatArray:
        """Probability of every node [m, K, J] (trapezoid in A); sums to 1 over K and J."""
        half = 0.5 * (self.density[..., 1:] + self.density[..., :-1]) * np.diff(self.A, axis=-1)
        mass = np.zeros_like(self.A)
        mass[..., 1:] += half / 2
        mass[..., :-1] += half / 2
        return mass

    def cdf_A(self, x: FloatArray) -> FloatArray:
        """P(A <= x) for x [m]: exact integral of the piecewise linear density."""
        h = np.diff(self.A, axis=-1)
        f0, f1 = self.density[..., :-1], self.density[..., 1:]
        t = np.clip(x[:, None, None] - self.A[..., :-1], 0.0, h)
        slope = (f1 - f0) / np.where(h > 0, h, 1.0)
        return np.clip((f0 * t + 0.5 * slope * t * t).sum((-1, -2)), 0.0, 1.0)

    def quantile_A(self, level: float) -> FloatArray:
        """Quantile of A [m], by bisection."""
        low, high = self.A.min((-1, -2)), self.A.max((-1, -2))
        for _ in range(30):
            middle = 0.5 * (low + high)
            below = self.cdf_A(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def rate_at(self, log_compute: float) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of R at one compute, given the node [m, K, J]."""
        u = log_compute - self.origin
        R0 = self.R0[..., None]
        g = expit(self.centre[..., 0] * u - self.centre[..., 1])
        slope = (self.A - R0) * g * (1 - g)
        return R0 + (self.A - R0) * g, np.abs(slope) * np.sqrt(self._eta_variance(u))

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
        """P(quantity <= x) for x [m], of a quantity that is normal (centre, sd) given the node."""
        finite = np.isfinite(centre)
        z = (x[:, None, None] - np.where(finite, centre, 0.0)) / self.smoothed(centre, sd)
        return (self.mass * np.where(finite, ndtr(z), centre < 0)).sum((-1, -2))

    def quantile(self, centre: FloatArray, sd: FloatArray, level: float) -> FloatArray:
        """Quantile [m] of such a quantity, by bisection; inf where more than 1 - level of the mass is at
        inf."""
        wide = self.smoothed(centre, sd)
        finite = np.isfinite(centre)
        middle = np.where(finite, centre, 0.0)
        mass, at_minus = self.mass, (self.mass * (~finite & (centre < 0))).sum((-1, -2))
        heavy = finite & (mass > 1e-9)
        low = np.where(heavy, middle - 6 * wide, np.inf).min((-1, -2))
        high = np.where(heavy, middle + 6 * wide, -np.inf).max((-1, -2))
        reachable = at_minus + (mass * finite).sum((-1, -2))
        answer = np.where(reachable < level, np.inf, np.where(at_minus > level, -np.inf, 0.0))
        solve = (answer == 0) & np.isfinite(low) & np.isfinite(high)
        low, high = np.where(solve, low, 0.0), np.where(solve, high, 0.0)
        for _ in range(45):
            x = 0.5 * (low + high)
            z = (x[:, None, None] - middle) / wide
            below = at_minus + (mass * np.where(finite, ndtr(z), 0.0)).sum((-1, -2)) < level
            low, high = np.where(below, x, low), np.where(below, high, x)
        return np.where(solve, 0.5 * (low + high), answer)


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
        prior=None if design.prior is None else np.array(design.prior[:4]) - np.array([0, 0, origin, 0]),
        prior_sigma=None if design.prior is None else np.full(m * k, design.prior[4]),
    )
    c = B0 * (log_mid - origin)
    nodes, log_density, centre, spread = march(flat, A.ravel(), B0.ravel(), c.ravel(), np.repeat(scale, k))
    log_density = log_density.reshape(m, k, -1)
    if r0_prior is not None and k > 1:
        log_density = (
            log_density - 0.5 * (((R0 - r0_prior.value[:, None]) / r0_prior.stderr[:, None]) ** 2)[..., None]
        )
    density = np.exp(log_density - log_density.max((-1, -2), keepdims=True))
    nodes = nodes.reshape(m, k, -1)
    if k > 1:
        density = density * _trapezoid_weights(R0)[..., None]
    total = (0.5 * (density[..., 1:] + density[..., :-1]) * np.diff(nodes, axis=-1)).sum((-1, -2))
    density = density / np.maximum(total, 1e-300)[:, None, None]
    shape = (m, k, nodes.shape[-1])
    return Posterior(nodes, R0, density, centre.reshape(*shape, 2), spread.reshape(*shape, 2, 2), origin)


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
