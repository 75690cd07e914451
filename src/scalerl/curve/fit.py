"""`scalerl.fit`: from a run or bare numbers to a fitted law with its intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from scalerl.curve.early import end_of_early_phase
from scalerl.curve.fitted import Fit, FitData, R0Mode
from scalerl.curve.noise import Noise, NoiseKind
from scalerl.curve.prior import PriorName, prior_for
from scalerl.curve.series import FloatArray, Scale, Series
from scalerl.curve.shape import Shape, examine
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.curve.source_grid import demand_gpu_hours, grid_fit, on_the_edge
from scalerl.curve.varpro import BEFORE_RL, Design, least_squares
from scalerl.curve.weights import Weights, weigh
from scalerl.errors import UserError

__all__ = ["Fit", "as_series", "fit"]

Method = Literal["varpro", "grid"]


def fit(
    run: Any = None,
    *,
    compute: ArrayLike | None = None,
    pass_rate: ArrayLike | None = None,
    stderr: ArrayLike | None = None,
    r0: float | Literal["auto", "measured", "free"] = "auto",
    window: tuple[float | None, float | None] | None = None,
    skip: Literal["auto"] | float | None = None,
    method: Method = "varpro",
    noise: NoiseKind = "ar1",
    prior: PriorName = "auto",
    scale: Scale | None = None,
    set: str | None = None,
    axis: str | None = None,
) -> Fit:
    """Fit Eq. 1, R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B), by weighted least squares.

    run: a Run (`scalerl.load`), a Series, or None with `compute` [n] and `pass_rate` [n] given in any order.
    r0: 'measured' takes the evaluation at compute 0 with its own error (what 'auto' does when there is one),
    a number is taken as exact, 'free' fits it (what 'auto' does otherwise, and `fit.r0_mode` says so).
    window: (lo, hi) in compute units, ends included, None for open. skip: 'auto' finds the end of the early
    phase (`fit.notes` says where), a number leaves out everything before that compute. method: 'varpro'
    (global least squares) or 'grid', the source's procedure (A.5; GPU-hours only, some 25 s; intervals are
    those of the same posterior, stretched to hold its estimate). noise: 'ar1' integrates over the correlation
    along the run, 'white' takes the points as independent. prior: 'weak' (on log B and log C_mid), 'none', or
    'auto' (weak below 30 points: see docs/law.md).

    Data that can't be fitted give a Fit whose `verdict` and `why` say so, with NaN parameters; a user's
    mistake (NaN, negative compute, values outside [0, 1], ...) raises UserError.
    """
    if method not in ("varpro", "grid"):
        raise UserError(f"method {method!r} isn't known; use 'varpro' or 'grid'")
    series = as_series(run, compute, pass_rate, stderr, scale, set, axis)
    mode, start, start_stderr = _start(series, r0)
    low, high = _window(window, skip)
    points = series.take(series.compute > 0)
    used = points.between(low, high)
    least = 6 if mode == "free" else 5
    known = start if mode != "free" else None
    notes: list[str] = []
    if skip == "auto" and len(used) > least:
        low = end_of_early_phase(used, known, least)
        if low > used.compute[0]:
            notes.append(f"skipped the early phase: points before {low:.4g} {series.unit}")
            used = used.between(low, None)
    shape = examine(used, least, known)
    if len(points) and high is not None and np.isfinite(high) and high > points.compute[-1] and len(used):
        notes.append(f"the window ends at {high:.4g}, beyond the last evaluation ({points.compute[-1]:.4g})")
    if shape.verdict == "collapse" and shape.peak_at is not None:
        used = used.between(None, shape.peak_at)
        if len(used) < least:
            shape = Shape("collapse", shape.why + f"; too few of them ({len(used)})", shape.peak_at)
    if len(used) < least or shape.verdict in ("all-zero", "all-equal", "beyond-data"):
        return _unfitted(series, used, shape, mode, (low, high), method, tuple(notes))
    if method == "grid":
        demand_gpu_hours(used)
    if mode == "free":
        notes.append(
            "no evaluation at compute 0 is used: R0 is fitted" if r0 == "auto" else "R0 is fitted, as asked"
        )
    return _solve(series, used, shape, mode, start, start_stderr, method, noise, prior, tuple(notes))


def as_series(
    run: Any,
    compute: ArrayLike | None = None,
    pass_rate: ArrayLike | None = None,
    stderr: ArrayLike | None = None,
    scale: Scale | None = None,
    set: str | None = None,
    axis: str | None = None,
) -> Series:
    """The series of a run, of a Series, or of bare columns."""
    if run is None:
        if compute is None or pass_rate is None:
            raise UserError("fit: give a run, or both compute= and pass_rate=")
        return Series.of(compute, pass_rate, stderr=stderr, scale=scale, axis=axis or "compute")
    if compute is not None or pass_rate is not None:
        raise UserError("fit: give a run or compute= and pass_rate=, not both")
    if isinstance(run, Series):
        return run
    if hasattr(run, "curve"):
        return run.curve(set=set, axis=axis)
    raise UserError(f"fit: a {type(run).__name__} isn't a run; load a record with scalerl.load(path)")


def _start(series: Series, r0: float | str) -> tuple[R0Mode, float, float | None]:
    if r0 == "free" or (r0 == "auto" and series.r0 is None):
        return "free", np.nan, None
    if r0 in ("auto", "measured"):
        if series.r0 is None:
            raise UserError(
                f"{series.name}: r0='measured', but there is no evaluation at compute 0; give r0 a number"
            )
        return "measured", series.r0, series.r0_stderr
    if isinstance(r0, str):
        raise UserError(f"r0 {r0!r} isn't known; use 'measured', 'free' or a number")
    if not 0 <= r0 < 1:
        raise UserError(f"r0 is {r0:g}; a pass rate before RL lies in [0, 1)")
    return "given", float(r0), 0.0


def _window(
    window: tuple[float | None, float | None] | None, skip: str | float | None
) -> tuple[float | None, float | None]:
    low, high = window if window is not None else (None, None)
    for end in (low, high):
        if end is not None and (np.isnan(end) or end < 0):
            raise UserError(f"window ({low}, {high}): ends are compute, >= 0")
    if low is not None and high is not None and low >= high:
        raise UserError(f"window ({low:g}, {high:g}) is empty; give (from, until) with from < until")
    if isinstance(skip, str) and skip != "auto":
        raise UserError(f"skip {skip!r} isn't known; use 'auto' or a compute")
    if skip is not None and not isinstance(skip, str):
        low = float(skip) if low is None else max(low, float(skip))
    return low, high


def _solve(
    series: Series,
    used: Series,
    shape: Shape,
    mode: R0Mode,
    start: float,
    start_stderr: float | None,
    method: Method,
    noise: NoiseKind,
    prior: PriorName,
    notes: tuple[str, ...],
) -> Fit:
    x, y = np.log(used.compute), used.pass_rate
    plain = np.ones(len(used))
    first = _least_squares(x, y, plain, mode, start, start_stderr, None, None)
    residual_sd = float(np.sqrt(first[1] / max(len(used) - (4 if mode == "free" else 3), 1)))
    weights = weigh(used.stderr, used.stderr_kind, residual_sd)
    if used.stderr is None:
        weights = replace(weights, weight=plain)
    sigma = max(residual_sd, weights.sigma_floor, 1e-6)
    penalty = prior_for(prior, used, sigma)
    if used.stderr is None and penalty is None:
        law, sse = first
    else:
        law, sse = _least_squares(x, y, weights.weight, mode, start, start_stderr, penalty, sigma)
    if method == "grid":
        law = grid_fit(used.compute, y, start if mode != "free" else law.R0)
        sse = float(((y - sigmoid(used.compute, law)) ** 2).sum())
        notes = (*notes, *_grid_notes(used, law))
    data = FitData(
        weights=weights,
        r0_stderr=_r0_stderr(mode, start_stderr, sigma),
        r0_value=start,
        noise=Noise(noise, weights.sigma_floor),
        penalty=penalty,
    )
    window = (float(used.compute[0]), float(used.compute[-1]))
    return Fit(law, sse, series, used, window, mode, method, shape, notes, data)


def _grid_notes(used: Series, law: Law) -> list[str]:
    notes = ["method grid: A on 0.450 to 0.800, C_mid on 100 to 40,000 GPU-hours (A.5), points unweighted"]
    if used.axis == "compute":
        notes.append("compute has no unit here: it is taken for GPU-hours")
    if edges := on_the_edge(law):
        notes.append(f"{' and '.join(edges)} on the edge of the grid: the best law may lie outside it")
    return notes


def _r0_stderr(mode: R0Mode, stderr: float | None, sigma: float) -> float | None:
    """Standard error that R0 enters with: its own, or a point's noise where it was measured without one."""
    if mode == "free":
        return None
    if mode == "given":
        return 0.0
    return max(sigma if stderr is None else stderr, 1e-5)


def _least_squares(
    x: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    mode: R0Mode,
    start: float,
    start_stderr: float | None,
    penalty: tuple[float, float, float, float, float] | None,
    sigma: float | None,
) -> tuple[Law, float]:
    """One curve through the batch solver; a measured R0 is one more row."""
    known = mode == "given"
    if mode == "measured":
        own = 1.0 if sigma is None or start_stderr is None else sigma / max(start_stderr, 1e-5)
        x, y, weight = np.append(BEFORE_RL, x), np.append(start, y), np.append(own, weight)
    solution = least_squares(Design(x, weight, known, penalty), y[None], np.array([start if known else 0.0]))
    law = Law(
        A=float(solution.A[0]),
        B=float(np.exp(solution.log_B[0])),
        C_mid=float(np.exp(solution.log_mid[0])),
        R0=float(solution.R0[0]),
    )
    return law, float(solution.sse[0])


def _unfitted(
    series: Series,
    used: Series,
    shape: Shape,
    mode: R0Mode,
    window: tuple[float | None, float | None],
    method: Method,
    notes: tuple[str, ...],
) -> Fit:
    nan = Law(np.nan, np.nan, np.nan, np.nan)
    ends = (-np.inf if window[0] is None else window[0], np.inf if window[1] is None else window[1])
    data = FitData(Weights(np.ones(len(used)), 0.0, np.nan), None, np.nan, Noise(), None)
    return Fit(nan, np.nan, series, used, ends, mode, method, shape, notes, data)
