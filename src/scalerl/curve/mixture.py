"""The posterior of a batch of curves as weighted nodes; distribution functions and quantiles read off it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from scalerl.curve.series import FloatArray


@dataclass(frozen=True)
class Posterior:
    """Posterior of the law for m curves: K marches (one a value of R0) of J nodes in A each.

    A [m, K, J]; density [P, m, K, J] under P priors (below): along each march, with the march's own weight in
    it, so that its integral over A and the sum over K is 1; R0 [m, K]; centre [m, K, J, 2] and spread [m, K,
    J, 2, 2]: mean and covariance of (B, c) given the node, c = B (log C_mid - origin).

    P is 1 where R0 is known or measured. Where it's fitted there are two reference priors, with R0 flat and
    with half of Jeffreys' factor for it; each covers where the other falls short, and an interval's lower end
    is the lower of the two quantiles, its upper end the higher.
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
        return self._below_A(x)[0]

    def _below_A(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(A <= x) and the density of A at x, [P, m] each."""
        h, slope = self._pieces
        t = np.clip(x[..., None, None] - self.A[..., :-1], 0.0, h)
        here = self.density[..., :-1] + slope * t
        below = (0.5 * (self.density[..., :-1] + here) * t).sum((-1, -2))
        return np.clip(below, 0.0, 1.0), (here * ((t > 0) & (t < h))).sum((-1, -2))

    @cached_property
    def _pieces(self) -> tuple[FloatArray, FloatArray]:
        """Length [m, K, J-1] and slope of the density [P, m, K, J-1] between neighbouring nodes."""
        h = np.diff(self.A, axis=-1)
        return h, np.diff(self.density, axis=-1) / np.where(h > 0, h, 1.0)

    def quantile_A(self, level: float) -> FloatArray:
        """Quantile of A [m]; the outer one of the priors'."""
        shape = self.density.shape[:2]
        low = np.broadcast_to(self.A.min((-1, -2)), shape)
        high = np.broadcast_to(self.A.max((-1, -2)), shape)
        return outer(invert(self._below_A, level, low, high), level)

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
        with np.errstate(over="ignore"):  # a C_mid beyond what a float holds: no rise in sight
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

    def refined(self, centre: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mass [P, m, K, J-1], centre and sd [m, K, J-1] of a quantity on the cells between the nodes.

        Density, centre and variance are linear between nodes; a cell's own width goes into its sd, so that a
        sum over cells has no gaps. A cell beside a node at infinity is at infinity.
        """
        finite = np.isfinite(centre)
        value = np.where(finite, centre, 0.0)
        both = finite[..., 1:] & finite[..., :-1]
        step = np.where(both, np.diff(value, axis=-1), 0.0)
        across = np.gradient(value, axis=-2) if value.shape[-2] > 1 else np.zeros_like(value)
        variance = sd**2 + across**2 / 12
        wide = np.sqrt(_middle(variance) + step**2 / 12) + 1e-12
        infinite = np.where(finite[..., 1:], centre[..., :-1], centre[..., 1:])
        width = np.diff(self.A, axis=-1)
        return _middle(self.density) * width, np.where(both, _middle(value), infinite), wide

    def cdf(self, centre: FloatArray, sd: FloatArray, x: FloatArray) -> FloatArray:
        """P(quantity <= x) [P, m] for x [m], of a quantity that is normal (centre, sd) given the node."""
        mass, middle, wide = self.refined(centre, sd)
        finite = np.isfinite(middle)
        z = (x[:, None, None] - np.where(finite, middle, 0.0)) / wide
        return np.asarray((mass * np.where(finite, ndtr(z), middle < 0)).sum((-1, -2)))

    def quantile(self, centre: FloatArray, sd: FloatArray, level: float) -> FloatArray:
        """Quantile [m] of such a quantity, by bisection, the outer one of the priors'; inf where it lies
        there."""
        masses, middle, wide = self.refined(centre, sd)
        finite = np.isfinite(middle)
        minus = ~finite & (middle < 0)
        middle = np.where(finite, middle, 0.0)
        each = [_quantile(mass, middle, wide, finite, minus, level) for mass in masses]
        return outer(np.stack(each), level)


def _middle(values: FloatArray) -> FloatArray:
    """Means of neighbouring nodes [..., J-1]."""
    return np.asarray(0.5 * (values[..., 1:] + values[..., :-1]))


def _quantile(
    mass: FloatArray,
    middle: FloatArray,
    wide: FloatArray,
    finite: NDArray[np.bool_],
    minus: NDArray[np.bool_],
    level: float,
) -> FloatArray:
    """Quantile [m] of a mixture of normals over the last two axes, with some of the mass at -inf or inf."""
    at_minus = (mass * minus).sum((-1, -2))
    mass = np.where(finite, mass, 0.0)
    heavy = mass > 1e-9
    low = np.where(heavy, middle - 6 * wide, np.inf).min((-1, -2))
    high = np.where(heavy, middle + 6 * wide, -np.inf).max((-1, -2))
    reachable = at_minus + mass.sum((-1, -2))
    answer = np.where(reachable < level, np.inf, np.where(at_minus > level, -np.inf, 0.0))
    solve = (answer == 0) & np.isfinite(low) & np.isfinite(high)
    low, high = np.where(solve, low, 0.0), np.where(solve, high, 0.0)
    inverse = 1 / wide

    def below(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = (x[:, None, None] - middle) * inverse
        density = (mass * inverse * np.exp(-0.5 * z * z)).sum((-1, -2)) / np.sqrt(2 * np.pi)
        return at_minus + (mass * ndtr(z)).sum((-1, -2)), density

    return np.where(solve, invert(below, level, low, high), answer)


def invert(
    below: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    level: float,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Where a distribution function reaches `level`, between low and high (any shape); below(x) gives the
    function and its density.

    Newton's steps kept within the bracket, which every evaluation narrows; a step that leaves it halves it.
    """
    x = 0.5 * (low + high)
    for _ in range(60):
        value, density = below(x)
        under = value < level
        low, high = np.where(under, x, low), np.where(under, high, x)
        found = (np.abs(value - level) < 1e-8) | (high - low <= 1e-10 * np.abs(high))
        if found.all():
            break
        step = x - (value - level) / np.where(density > 0, density, 1.0)
        inside = (density > 0) & (step > low) & (step < high)
        x = np.where(found, x, np.where(inside, step, 0.5 * (low + high)))
    return x


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
