"""From a least-squares solution to the posterior: one march where R0 is known, a grid of marches where it
isn't."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from scalerl.curve.mixture import Posterior
from scalerl.curve.noise import Noise
from scalerl.curve.posterior import COARSE, FINE, Problem, march, search_scale
from scalerl.curve.refine import between, between_cubic
from scalerl.curve.series import FloatArray
from scalerl.curve.varpro import Design, Solution, polish

R0_NODES = 8
R0_REACH = 3.6  # of R0's standard deviation on both sides


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
    is the solution's, without error; else it's integrated over.
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
    pace = FINE if design.r0_known or r0_prior is not None else COARSE
    found = march(flat, A.ravel(), B0.ravel(), c.ravel(), np.repeat(scale, k), pace)
    shape = (m, k, found.A.shape[-1])
    nodes, log_density = found.A.reshape(shape), found.log_density.reshape(shape)
    half = 0.5 * found.r0_volume.reshape(shape)
    if r0_prior is not None and k > 1:
        log_density = (
            log_density - 0.5 * (((R0 - r0_prior.value[:, None]) / r0_prior.stderr[:, None]) ** 2)[..., None]
        )
    priors = np.stack([log_density, log_density + half] if k > 1 and r0_prior is None else [log_density])
    priors, nodes = between_cubic(nodes, priors), between(nodes)
    density = np.exp(priors - priors.max((-1, -2), keepdims=True))
    if k > 1:
        density = density * _trapezoid_weights(R0)[..., None]
    total = (0.5 * (density[..., 1:] + density[..., :-1]) * np.diff(nodes, axis=-1)).sum((-1, -2))
    density = density / np.maximum(total, 1e-300)[..., None, None]
    centre = between(found.centre.reshape(*shape, 2), axis=2)
    spread = between(found.spread.reshape(*shape, 2, 2), axis=2)
    return Posterior(nodes, R0, density, centre, spread, origin)


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
        steps=6,
    )
    return at.A.reshape(R0.shape), np.exp(at.log_B).reshape(R0.shape), at.log_mid.reshape(R0.shape)


def _trapezoid_weights(grid: FloatArray) -> FloatArray:
    step = np.diff(grid, axis=-1)
    weights = np.zeros_like(grid)
    weights[:, 1:] += step / 2
    weights[:, :-1] += step / 2
    return weights
