"""Weighted least squares of Eq. 1 by variable projection, many curves at once.

Given (log B, log C_mid) Eq. 1 is linear in (R0, A): R = R0 (1 - g) + A g. So the search is over two
dimensions only: a coarse grid over both (one matrix product for all curves) finds the basin, a damped
Gauss-Newton polish on the projected residual finds its bottom. A stays in [R0, 1], R0 in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scalerl.curve.series import FloatArray

LOG_B_RANGE = (np.log(0.1), np.log(10.0))
MID_REACH = np.log(300.0)  # C_mid is searched from 300 times below the window to 300 times above it
GRID_B, GRID_MID = 20, 36


NEAR_ONE = 0.999  # A from here on is tried at its bound
GAINED_ENOUGH = 1e-12  # of the sum of squares: a step that gains no more ends the search
BEFORE_RL = -1e4  # log compute of the row that carries a measured R0: the share g is 0 there


@dataclass(frozen=True)
class Design:
    """What all curves of a batch share.

    x: log compute [n]; weight: 1 / relative noise sd [n]; r0_known: R0 is given and not fitted; prior:
    penalty (mean_b, sd_b, mean_m, sd_m, sigma) on log B and log C_mid, sigma the weighted residual sd that
    sets its strength, or None. A measured R0 is one more row at x = BEFORE_RL, with weight (noise sd / its
    standard error). at_one: A is held at 1, its bound.
    """

    x: FloatArray
    weight: FloatArray
    r0_known: bool = True
    prior: tuple[float, float, float, float, float] | None = None
    at_one: bool = False

    @property
    def mid_range(self) -> tuple[float, float]:
        """Lowest and highest log C_mid that are searched."""
        inside = self.x[self.x > BEFORE_RL]
        return float(inside.min()) - MID_REACH, float(inside.max()) + MID_REACH


@dataclass(frozen=True)
class Solution:
    """Least-squares solutions [m]: parameters and the weighted sum of squares (penalty not included)."""

    A: FloatArray
    R0: FloatArray
    log_B: FloatArray
    log_mid: FloatArray
    sse: FloatArray


def solve_linear(
    design: Design, g: FloatArray, y: FloatArray, r0: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Best (R0, A) for given shares g, with R0 <= A <= 1, and the sum of squares there.

    g, y: broadcastable [..., n]; r0: [...] the known value (ignored when fitted). Returns R0, A, sse [...].
    """
    w2 = design.weight**2
    gw = g * w2
    s_g, s_gg = gw.sum(-1), (gw * g).sum(-1)
    s_gy, s_y, s_yy, s_1 = (gw * y).sum(-1), (w2 * y).sum(-1), (w2 * y * y).sum(-1), w2.sum()
    if design.at_one:
        start = np.clip((s_y - s_gy - s_g + s_gg) / np.maximum(s_1 - 2 * s_g + s_gg, 1e-200), 0.0, 1.0)
        R0 = np.broadcast_to(r0, s_g.shape) if design.r0_known else start
        sse = (design.weight**2 * (y - R0[..., None] - (1 - R0)[..., None] * g) ** 2).sum(-1)
        return R0, np.ones_like(R0), sse
    return _best_linear(s_1, s_g, s_gg, s_y, s_gy, s_yy, r0, design.r0_known)


def _best_linear(
    s_1: FloatArray | float,
    s_g: FloatArray,
    s_gg: FloatArray,
    s_y: FloatArray,
    s_gy: FloatArray,
    s_yy: FloatArray,
    r0: FloatArray,
    r0_known: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bounded two-column least squares from the sums over points; the columns are 1 - g (for R0) and g (for
    A)."""
    if r0_known:
        gain = np.clip((s_gy - r0 * s_g) / np.maximum(s_gg, 1e-300), 0.0, 1.0 - r0)
        sse = s_yy - 2 * r0 * s_y + r0**2 * s_1 - 2 * gain * (s_gy - r0 * s_g) + gain**2 * s_gg
        return np.broadcast_to(r0, sse.shape), r0 + gain, np.maximum(sse, 0.0)
    a11, a12, a22 = s_1 - 2 * s_g + s_gg, s_g - s_gg, s_gg
    b1, b2 = s_y - s_gy, s_gy
    det = a11 * a22 - a12**2
    regular = det > 1e-13 * a11 * a22
    det = np.where(regular, det, 1.0)
    a11, a22 = np.maximum(a11, 1e-200), np.maximum(a22, 1e-200)
    inner_r = np.where(regular, (a22 * b1 - a12 * b2) / det, -1.0)  # -1: outside, not a candidate
    inner_a = np.where(regular, (a11 * b2 - a12 * b1) / det, -1.0)
    one = np.ones_like(inner_r)
    flat = np.clip((b1 + b2) / s_1, 0, 1) * one
    best_r, best_a, best = flat, flat, np.full(one.shape, np.inf)
    for r, a in (
        (inner_r, inner_a),
        (np.clip((b1 - a12) / a11, 0, 1), one),  # A at 1
        (0 * one, np.clip(b2 / a22, 0, 1)),  # R0 at 0
        (flat, flat),  # no rise
    ):
        inside = (r >= 0) & (a <= 1) & (r <= a)
        r, a = np.where(inside, r, 0.0), np.where(inside, a, 0.0)
        sse = s_yy - 2 * (r * b1 + a * b2) + r * r * a11 + 2 * r * a * a12 + a * a * a22
        better = inside & (sse < best)
        best_r, best_a = np.where(better, r, best_r), np.where(better, a, best_a)
        best = np.where(better, sse, best)
    return best_r, best_a, np.maximum(best, 0.0)


def penalty(design: Design, log_B: FloatArray, log_mid: FloatArray) -> FloatArray | float:
    """The prior's contribution to the objective, in the unit of the weighted sum of squares."""
    if design.prior is None:
        return 0.0
    mean_b, sd_b, mean_m, sd_m, sigma = design.prior
    return np.asarray(sigma**2 * (((log_B - mean_b) / sd_b) ** 2 + ((log_mid - mean_m) / sd_m) ** 2))


@dataclass(frozen=True)
class Starts:
    """Where to polish m curves from: the grid's best cell (log_B, log_mid [m]), and for the curves `doubtful`
    [m] the best of the other kind (A at its bound or not), where it comes close: the bound hides basins."""

    log_B: FloatArray
    log_mid: FloatArray
    other_log_B: FloatArray
    other_log_mid: FloatArray
    doubtful: NDArray[np.bool_]


def coarse_start(design: Design, y: FloatArray, r0: FloatArray) -> Starts:
    """Best cells of a coarse grid over (log B, log C_mid) for each curve y [m, n]: one matrix product for
    all."""
    b = np.linspace(*LOG_B_RANGE, GRID_B)
    mid = np.linspace(*design.mid_range, GRID_MID)
    log_b, log_mid = (axis.ravel() for axis in np.meshgrid(b, mid, indexing="ij"))
    slope = np.exp(log_b).astype(np.float32)[:, None]  # single precision is plenty for a start
    g = expit(slope * (design.x - log_mid[:, None]).astype(np.float32)).astype(np.float64)
    w2 = design.weight**2
    cells = penalty(design, log_b, log_mid)
    s_g, s_gg = g @ w2, (g * g) @ w2
    first, second, doubtful = np.empty(len(y), int), np.empty(len(y), int), np.empty(len(y), bool)
    for at in range(0, len(y), 256):
        part = slice(at, at + 256)
        yw = y[part] * w2
        _, A, sse = _best_linear(
            w2.sum(), s_g, s_gg, yw.sum(-1)[:, None], yw @ g.T, (yw * y[part]).sum(-1)[:, None],
            r0[part, None], design.r0_known,
        )  # fmt: skip
        value = sse + cells
        rows = np.arange(len(value))
        first[part] = best = np.argmin(value, axis=-1)
        bounded = A >= 1.0
        other = np.where(bounded == bounded[rows, best][:, None], np.inf, value)
        second[part] = rival = np.argmin(other, axis=-1)
        doubtful[part] = other[rows, rival] < 2.0 * value[rows, best]
    return Starts(log_b[first], log_mid[first], log_b[second], log_mid[second], doubtful)


def polish(
    design: Design, y: FloatArray, r0: FloatArray, log_B: FloatArray, log_mid: FloatArray, steps: int = 60
) -> Solution:
    """Damped Gauss-Newton on the projected residual (Kaufman's form) from the given starts [m]."""
    theta = np.stack([log_B, log_mid], axis=-1)
    low, high = np.array([LOG_B_RANGE, design.mid_range]).T
    damping = np.full(len(y), 1e-3)
    value, gradient, curvature = _objective(design, y, r0, theta)
    active = np.arange(len(y))
    for _ in range(steps):
        if not len(active):
            break
        here, damp = theta[active], damping[active]
        held = ((here <= low) & (gradient > 0)) | ((here >= high) & (gradient < 0))
        move = np.clip(_damped_step(gradient, curvature, damp, held), -1.5, 1.5)
        trial = np.clip(here + move, low, high)
        new_value, new_gradient, new_curvature = _objective(design, y[active], r0[active], trial)
        better = new_value <= value
        gained = np.where(better, value - new_value, 0.0)
        theta[active] = np.where(better[:, None], trial, here)
        damping[active] = np.where(better, damp * 0.2, damp * 6.0)
        small = np.abs(move).max(-1) < 1e-9
        done = (
            (better & ((gained <= GAINED_ENOUGH * value) | small))
            | (damping[active] > 1e9)
            | (small & ~better)
        )
        value = np.where(better, new_value, value)
        gradient = np.where(better[:, None], new_gradient, gradient)
        curvature = np.where(better[:, None, None], new_curvature, curvature)
        keep = ~done
        active, value, gradient, curvature = active[keep], value[keep], gradient[keep], curvature[keep]
    g = expit(np.exp(theta[:, :1]) * (design.x - theta[:, 1:]))
    R0, A, _ = solve_linear(design, g, y, r0)
    residual = (y - R0[:, None] - (A - R0)[:, None] * g) * design.weight
    return Solution(A=A, R0=R0, log_B=theta[:, 0], log_mid=theta[:, 1], sse=(residual**2).sum(-1))


def least_squares(design: Design, y: FloatArray, r0: FloatArray) -> Solution:
    """Global least squares of Eq. 1 for curves y [m, n]; r0 [m] the known start (ignored when fitted).

    Where A ends at its bound or near it, the search is repeated with A held there: the slope of the objective
    has a kink at the bound, on which the free search can come to rest a little too early.
    """
    start = coarse_start(design, y, r0)
    best = polish(design, y, r0, start.log_B, start.log_mid)
    rows = np.flatnonzero(start.doubtful)
    if len(rows):
        other = polish(design, y[rows], r0[rows], start.other_log_B[rows], start.other_log_mid[rows])
        best = _better(design, best, other, rows)
    rows = np.flatnonzero(best.A > NEAR_ONE)
    if len(rows):
        held = polish(replace(design, at_one=True), y[rows], r0[rows], best.log_B[rows], best.log_mid[rows])
        best = _better(design, best, held, rows)
    return best


def _better(design: Design, best: Solution, other: Solution, rows: NDArray[np.intp]) -> Solution:
    """Solutions [m] with those of `rows` replaced where `other` [len(rows)] has the lower objective."""
    value = other.sse + penalty(design, other.log_B, other.log_mid)
    before = best.sse[rows] + penalty(design, best.log_B[rows], best.log_mid[rows])
    better = value < before
    columns = {name: np.array(getattr(best, name)) for name in ("A", "R0", "log_B", "log_mid", "sse")}
    for name, column in columns.items():
        column[rows[better]] = getattr(other, name)[better]
    return Solution(**columns)


def _objective(
    design: Design, y: FloatArray, r0: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, half gradient [m, 2] and Gauss-Newton matrix [m, 2, 2] of the projected sum of squares plus
    penalty."""
    B = np.exp(theta[:, :1])
    distance = design.x - theta[:, 1:]
    g = expit(B * distance)
    R0, A, value = solve_linear(design, g, y, r0)
    w = design.weight
    slope = w * (A - R0)[:, None] * g * (1 - g)
    residual = w * (y - R0[:, None] - (A - R0)[:, None] * g)
    value = (residual**2).sum(-1)
    columns = np.stack(
        [slope * B * distance, -slope * B], axis=1
    )  # d model / d (log B, log C_mid), [m, 2, n]
    projected = _project_out(design, columns, w * g, w * (1 - g), (A < 1) & (A > R0), R0)
    gradient = -(projected @ residual[:, :, None])[:, :, 0]
    curvature = projected @ projected.transpose(0, 2, 1)
    if design.prior is not None:
        mean_b, sd_b, mean_m, sd_m, sigma = design.prior
        pull = sigma / np.array([sd_b, sd_m])
        offset = (theta - np.array([mean_b, mean_m])) * pull
        value = value + (offset**2).sum(-1)
        gradient = gradient + offset * pull
        curvature = curvature + np.diag(pull**2)
    return value, gradient, curvature


def _project_out(
    design: Design,
    columns: FloatArray,
    gain: FloatArray,
    start: FloatArray,
    gain_free: NDArray[np.bool_],
    R0: FloatArray,
) -> FloatArray:
    """Columns [m, 2, n] less their part in the span of the linear columns that aren't at a bound."""
    gain = np.where(gain_free[:, None], gain, 0.0)
    norm = np.maximum((gain**2).sum(-1), 1e-300)
    unit = gain / np.sqrt(norm)[:, None]
    columns = columns - (columns @ unit[:, :, None]) * unit[:, None, :]
    if design.r0_known:
        return columns
    start = np.where((R0 > 0)[:, None], start, 0.0)
    other = start - (start * unit).sum(-1)[:, None] * unit
    other_norm = (other**2).sum(-1) + 1e-300
    return columns - (columns @ other[:, :, None]) / other_norm[:, None, None] * other[:, None, :]


def _damped_step(
    gradient: FloatArray, curvature: FloatArray, damping: FloatArray, held: NDArray[np.bool_]
) -> FloatArray:
    """Levenberg-Marquardt step [m, 2]; a coordinate held at its bound stays, the other moves on its own."""
    a, d = curvature[:, 0, 0], curvature[:, 1, 1]
    a, d = a + damping * a + 1e-300, d + damping * d + 1e-300
    free = ~held
    p, q = np.where(free, gradient, 0.0).T
    b = np.where(free[:, 0] & free[:, 1], curvature[:, 0, 1], 0.0)
    det = np.maximum(a * d - b * b, 1e-300)
    return np.array([(b * q - d * p) / det, (b * p - a * q) / det]).T
