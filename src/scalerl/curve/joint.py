"""Seeds of one recipe together: a run-level random effect, and three questions that are often mixed up.

Each run's parameter is recipe mean + run effect (between-seed sd tau), seen with the fit's own error. tau
isn't known from two or three seeds, so it is integrated over (grid, half-Cauchy prior), never plugged in. The
three answers: this run's value, the recipe's mean, and what the next seed will show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from scalerl.curve.fitted import Fit, Interval
from scalerl.curve.series import FloatArray
from scalerl.errors import UserError

Parameter = Literal["A", "log_B", "log_C_mid"]
# Scale of the half-Cauchy prior on the between-seed sd: for A the source saw +-0.015 over three runs (A.5).
TAU_SCALE: dict[str, float] = {"A": 0.01, "log_B": 0.1, "log_C_mid": 0.1}


@dataclass(frozen=True)
class Joint:
    """Random-effects analysis of one parameter over the seeds of a recipe.

    values, errors [n]: the runs' own estimates and fit errors (sd); tau: posterior median of the
    between-seed sd.
    """

    parameter: str
    values: FloatArray
    errors: FloatArray
    mean: float
    tau: float
    mean_interval: Interval
    next_seed_interval: Interval
    run_intervals: tuple[Interval, ...]
    level: float


def joint(fits: Sequence[Fit], parameter: Parameter = "A", level: float = 0.9) -> Joint:
    """Join the fits of one recipe's seeds. UserError without fits, or where one of them has none."""
    if not fits:
        raise UserError("joint: give at least one fit")
    for one in fits:
        if not one.fitted:
            raise UserError(f"joint: {one.series.name} has no fit: {one.why}")
    pairs = [estimate_and_error(one, parameter) for one in fits]
    return random_effects(np.array([v for v, _ in pairs]), np.array([e for _, e in pairs]), parameter, level)


def estimate_and_error(fit: Fit, parameter: Parameter) -> tuple[float, float]:
    """A run's own estimate and its sd: half the width of the central 68% of its posterior."""
    name = {"A": "A", "log_B": "B", "log_C_mid": "C_mid"}[parameter]
    lower, upper = fit.interval(name, 0.6827)
    if parameter == "A":
        return fit.A, max((upper - lower) / 2, 1e-6)
    value = getattr(fit, name)
    return float(np.log(value)), max(float(np.log(upper / lower)) / 2, 1e-6)


def random_effects(values: FloatArray, errors: FloatArray, parameter: str = "A", level: float = 0.9) -> Joint:
    """Posterior of the recipe's mean, the next seed and each run, from estimates [n] and their errors [n]."""
    scale = TAU_SCALE[parameter]
    tau = np.concatenate([[0.0], np.geomspace(0.03 * scale, 30 * scale, 90)])
    log_prior = -np.log1p((tau / scale) ** 2)
    precision = 1 / (errors**2 + tau[:, None] ** 2)  # [T, n]
    total = precision.sum(-1)
    mean = (precision * values).sum(-1) / total
    log_like = 0.5 * np.log(precision).sum(-1) - 0.5 * np.log(total)
    log_like = log_like - 0.5 * (precision * (values - mean[:, None]) ** 2).sum(-1)
    weight = np.exp(log_like + log_prior - (log_like + log_prior).max()) * np.gradient(tau)
    weight = weight / weight.sum()
    mean_var = 1 / total
    own = tau[:, None] ** 2 * precision  # weight of the run's own estimate against the mean
    run_centre = mean[:, None] + own * (values - mean[:, None])
    run_var = errors**2 * own + (1 - own) ** 2 * mean_var[:, None]
    low, high = (1 - level) / 2, (1 + level) / 2

    def interval(centre: FloatArray, variance: FloatArray) -> Interval:
        sd = np.sqrt(np.maximum(variance, 1e-18))
        return Interval(*(mixture_quantile(weight, centre, sd, q) for q in (low, high)))

    return Joint(
        parameter=parameter,
        values=values,
        errors=errors,
        mean=float((weight * mean).sum()),
        tau=float(tau[np.searchsorted(np.cumsum(weight), 0.5)]),
        mean_interval=interval(mean, mean_var),
        next_seed_interval=interval(mean, mean_var + tau**2),
        run_intervals=tuple(interval(run_centre[:, i], run_var[:, i]) for i in range(len(values))),
        level=level,
    )


def mixture_quantile(weight: FloatArray, centre: FloatArray, sd: FloatArray, level: float) -> float:
    """Quantile of a mixture of normals [T], by bisection."""
    ends = centre + np.outer([-1, 1], sd) * abs(float(ndtri(1e-6)))
    heavy = weight > 1e-12
    low, high = float(ends[0, heavy].min()), float(ends[1, heavy].max())
    for _ in range(60):
        x = 0.5 * (low + high)
        below = float((weight * ndtr((x - centre) / sd)).sum()) < level
        low, high = (x, high) if below else (low, x)
    return 0.5 * (low + high)
