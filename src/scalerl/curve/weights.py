"""From evaluation noise to weights: how much each point counts, and how small the noise can be at least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalerl.curve.series import FloatArray, StderrKind


@dataclass(frozen=True)
class Weights:
    """weight [n]: 1 / relative noise sd; sigma_floor: least noise sd of a point of weight 1; training_sd:
    noise beyond the evaluation's."""

    weight: FloatArray
    sigma_floor: float
    training_sd: float


def weigh(stderr: FloatArray | None, kind: StderrKind | None, residual_sd: float) -> Weights:
    """Weights of points with evaluation noise `stderr` [n], given the sd of a first, unweighted fit's
    residuals.

    The variance of a point is its evaluation variance plus a training variance that all points share: what
    the residuals show beyond the evaluation noise. A binomial stderr is an upper bound (the same prompts are
    asked each time), so it shapes the weights but sets no floor; one from per-prompt counts does.
    """
    if stderr is None or not (stderr > 0).any():
        count = 0 if stderr is None else len(stderr)
        return Weights(np.ones(count), 0.0, residual_sd)
    known = np.maximum(stderr, 0.25 * np.median(stderr[stderr > 0]))  # k of k right isn't noise-free
    evaluation = float(np.mean(known**2))
    training = max(residual_sd**2 - evaluation, 0.0)
    weight = np.sqrt(training + evaluation) / np.sqrt(training + known**2)
    floor = float(np.sqrt(evaluation)) if kind == "per-prompt" else 0.0
    return Weights(weight, floor, float(np.sqrt(training)))
