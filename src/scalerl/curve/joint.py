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
from scalerl.curve.mixture import invert
from scalerl.curve.series import FloatArray
from scalerl.errors import UserError

Parameter = Literal["A", "log_B", "log_C_mid"]
# Scale of the half-Cauchy prior on the between-seed sd. The source saw A within +-0.015 over three runs (sd
# about 0.01); at twice that the intervals still hold where seeds spread twice as far (at 0.01 they held 79
# to 86% there, with two or three seeds).
TAU_SCALE: dict[str, float] = {"A": 0.02, "log_B": 0.2, "log_C_mid": 0.2}


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
    centres = np.concatenate(
        [[mean, mean], run_centre.T]
    )  # the recipe's mean, the next seed, each run: [2 + n, T]
    variances = np.concatenate([[mean_var, mean_var + tau**2], run_var.T])
    recipe, following, *runs = _intervals(weight, centres, np.sqrt(np.maximum(variances, 1e-18)), level)
    return Joint(
        parameter=parameter,
        values=values,
        errors=errors,
        mean=float((weight * mean).sum()),
        tau=float(tau[np.searchsorted(np.cumsum(weight), 0.5)]),
        mean_interval=recipe,
        next_seed_interval=following,
        run_intervals=tuple(runs),
        level=level,
    )


def _intervals(weight: FloatArray, centres: FloatArray, sds: FloatArray, level: float) -> list[Interval]:
    """Equal-tailed intervals of Q mixtures of normals, weight [T], centres and sds [Q, T]."""
    heavy = weight > 1e-12
    reach = -float(ndtri(1e-7)) * sds[:, heavy]
    low, high = (centres[:, heavy] - reach).min(-1), (centres[:, heavy] + reach).max(-1)

    def below(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = (x[:, None] - centres) / sds
        return ndtr(z) @ weight, (np.exp(-0.5 * z * z) / sds) @ weight / np.sqrt(2 * np.pi)

    ends = [invert(below, q, low, high) for q in ((1 - level) / 2, (1 + level) / 2)]
    return [Interval(float(lower), float(upper)) for lower, upper in zip(*ends, strict=True)]
