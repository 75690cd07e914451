"""The noise of a curve: evaluation noise of known size, training noise on top, correlated along the run.

Total noise of point i is sigma * e_i / w_i: w_i = 1 / relative sd (from the evaluation's counts, else 1), e a
first-order autoregression in compute whose correlation at one median spacing is rho. sigma and rho aren't
known: the posterior integrates over both (posterior.py), sigma in closed form, rho on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import gammainc

from scalerl.curve.series import FloatArray

NoiseKind = Literal["ar1", "white"]

# Nodes for the correlation. The prior on -0.3..0.98 leans towards high values, as (1 - rho)^-LEAN: runs
# drift, and a
# flat prior gave 86.8 to 90% coverage under AR(1) at 0.7.
LEAN = 0.4
RHO_NODES = np.array([-0.2, 0.0, 0.2, 0.38, 0.54, 0.67, 0.77, 0.85, 0.91, 0.955])


@dataclass(frozen=True)
class Noise:
    """What is assumed of the noise: 'ar1' (correlation estimated) or 'white'; sigma_floor in units of w (0:
    none)."""

    kind: NoiseKind = "ar1"
    sigma_floor: float = 0.0

    def rho_nodes(self) -> FloatArray:
        """The correlations to integrate over [k]."""
        return RHO_NODES if self.kind == "ar1" else np.zeros(1)

    def log_rho_prior(self) -> FloatArray:
        """Log weight of every node [k]: the prior density there times the interval that it stands for."""
        nodes = self.rho_nodes()
        if len(nodes) == 1:
            return np.zeros(1)
        edges = np.concatenate([[-0.3], (nodes[1:] + nodes[:-1]) / 2, [0.98]])
        return np.log(np.diff(edges)) - LEAN * np.log(1 - nodes)


@dataclass(frozen=True)
class Precision:
    """Inverse correlation matrices of k correlations: tridiagonal, diagonal [k, n], off [k, n-1], log_det
    [k]; log_prior [k] of the correlations.

    even: the evaluations are evenly spaced; then products need three sums over points only, whatever k.
    """

    rho: FloatArray
    diagonal: FloatArray
    off: FloatArray
    log_det: FloatArray
    log_prior: FloatArray
    even: bool

    @cached_property
    def constant(self) -> FloatArray:
        """Log prior plus half the log determinant [k]: what every node's density starts with."""
        return self.log_prior + 0.5 * self.log_det

    @cached_property
    def _mix(self) -> FloatArray:
        """Shares of the plain products, of the ends' and of the neighbours' in each metric [3, k] (even
        spacing)."""
        r, keep = self.rho, 1 - self.rho**2
        return np.stack([(1 + r * r) / keep, -r * r / keep, -r / keep])

    def gram(self, columns: FloatArray, products: FloatArray) -> FloatArray:
        """Products of columns [p, m, n] in each metric [m, p, p, k]; `products` [m, p, p]: the plain ones."""
        if self.even and len(self.rho) == 1 and self.rho[0] == 0:
            return products[..., None]
        out = np.empty((*products.shape, 3 if self.even else len(self.rho)))
        for i, first in enumerate(columns):
            for j, second in enumerate(columns[: i + 1]):
                out[:, i, j] = out[:, j, i] = self._of_pair(first, second, i == j)
        if not self.even:
            return out
        out[..., 0] = products
        return np.asarray(out @ self._mix)

    def _of_pair(self, first: FloatArray, second: FloatArray, same: bool) -> FloatArray:
        """Two columns [m, n]: their products in each metric [m, k], or at even spacing (nothing, ends,
        neighbours) [m, 3]."""
        if self.even:
            out = np.zeros((len(first), 3))
            out[:, 1] = first[:, 0] * second[:, 0] + first[:, -1] * second[:, -1]
            lag = row_products(first[:, 1:], second[:, :-1])
            out[:, 2] = 2 * lag if same else lag + row_products(second[:, 1:], first[:, :-1])
            return out
        cross = first[:, 1:] * second[:, :-1] + second[:, 1:] * first[:, :-1]
        return np.asarray((first * second) @ self.diagonal.T + cross @ self.off.T)


def row_products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Sums over points of products [m] of two columns [m, n]."""
    return np.asarray(np.einsum("mn,mn->m", first, second))


def precision(compute: FloatArray, noise: Noise) -> Precision:
    """Inverse of the correlation matrix of the noise at `compute` [n] for each of its correlations [k].

    The correlation of neighbours is rho^(spacing / median spacing); a negative rho keeps its sign at every
    spacing.
    """
    rho, spacing = noise.rho_nodes(), np.diff(compute)
    ratio = spacing / np.median(spacing)
    r = np.sign(rho)[:, None] * np.abs(rho)[:, None] ** np.clip(ratio, 0.05, 20.0)
    keep = 1 - r**2
    diagonal = np.ones((len(rho), len(compute)))
    diagonal[:, 1:] = 1 / keep
    diagonal[:, :-1] += r**2 / keep
    even = bool(np.abs(ratio - 1).max() < 1e-6)
    return Precision(rho, diagonal, -r / keep, -np.log(keep).sum(-1), noise.log_rho_prior(), even)


def log_scale_integral(sse: FloatArray, degrees: int, floor: float) -> FloatArray:
    """Log of the integral over sigma > floor of sigma^-(degrees+1) exp(-sse / (2 sigma^2)), up to a
    constant."""
    value = -0.5 * degrees * np.log(np.maximum(sse, 1e-300))
    if floor > 0:
        inside = gammainc(degrees / 2, np.maximum(sse, 1e-300) / (2 * floor**2))
        value = value + np.log(np.maximum(inside, 1e-300))
    return value


def lag_correlation(residual: FloatArray, fitted: int) -> FloatArray:
    """Lag-1 correlation of residuals [m, n], corrected for `fitted` parameters, in [0, 0.9]: how far to
    search."""
    n = residual.shape[-1]
    lagged = (residual[:, 1:] * residual[:, :-1]).sum(-1) / np.maximum((residual**2).sum(-1), 1e-300)
    return np.clip(lagged + (1 + fitted) / n, 0.0, 0.9)
