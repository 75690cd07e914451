"""Forecast: what the curve does next, when it reaches a pass rate, and what another doubling of compute
still brings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scalerl.curve.fitted import Fit, Prediction, Reach
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.errors import UserError


@dataclass(frozen=True)
class NextDoubling:
    """Gain from `compute` to twice that: estimate and interval; worthwhile_until: compute from which the next
    doubling brings less than `threshold` (inf where it always brings more, which Eq. 1 excludes; the start
    where it never does).
    """

    compute: float
    gain: float
    lower: float
    upper: float
    threshold: float
    worthwhile_until: float

    @property
    def advice(self) -> str:
        """The advice in a sentence; careful where the interval holds the threshold."""
        gain = f"the next doubling brings {self.gain:+.4f} (90% {self.lower:+.4f} to {self.upper:+.4f})"
        if self.upper < self.threshold:
            return f"stop: {gain}, less than {self.threshold:g}"
        if self.lower >= self.threshold:
            return f"go on: {gain}, at least {self.threshold:g}"
        return f"open: {gain}; {self.threshold:g} lies within the interval"


@dataclass(frozen=True)
class Forecast:
    """What `scalerl forecast` answers: predictions at given computes, computes to reach rates, the next
    doubling."""

    fit: Fit
    prediction: Prediction | None
    reaches: tuple[Reach, ...]
    next_doubling: NextDoubling | None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers with stable names."""
        out: dict[str, Any] = {"fit": self.fit.to_dict()}
        if self.prediction is not None:
            keys = ("compute", "mean", "lower", "upper")
            columns = [getattr(self.prediction, key) for key in keys]
            out["predictions"] = [
                dict(zip(keys, map(float, row), strict=True)) for row in zip(*columns, strict=True)
            ]
        out["reach"] = [reach._asdict() for reach in self.reaches]
        if self.next_doubling is not None:
            out["next_doubling"] = asdict(self.next_doubling) | {"advice": self.next_doubling.advice}
        return out


def forecast(
    fit: Fit,
    at: list[float] | None = None,
    reach: list[float] | None = None,
    stop_when: float | None = None,
    level: float = 0.9,
) -> Forecast:
    """Forecast from a fit: R at `at` (compute), compute to `reach` (pass rates), advice for a gain of
    `stop_when`."""
    return Forecast(
        fit,
        fit.predict(at, level) if at else None,
        tuple(fit.reach(rate, level) for rate in reach or []),
        next_doubling(fit, stop_when, level) if stop_when is not None and fit.fitted else None,
    )


def next_doubling(
    fit: Fit, threshold: float, level: float = 0.9, compute: float | None = None
) -> NextDoubling:
    """The gain of the next doubling from `compute` (default: the last evaluation), against a threshold in
    pass rate."""
    if not 0 < threshold < 1:
        raise UserError(
            f"stop-when {threshold:g}: give a gain in pass rate between 0 and 1, for example 0.01"
        )
    now = float(fit.series.compute[-1]) if compute is None else compute
    post = fit.posterior
    centre, sd = post.gain_between(np.log(now), np.log(2 * now))
    ends = [float(post.quantile(centre, sd, q)[0]) for q in ((1 - level) / 2, (1 + level) / 2)]
    gain = doubling_gain(now, fit.law)
    return NextDoubling(
        now, gain, min(ends[0], gain), max(ends[1], gain), threshold, last_worthwhile(fit.law, threshold, now)
    )


def doubling_gain(compute: float, law: Law) -> float:
    """R(2 C) - R(C)."""
    return float(sigmoid(2 * compute, law) - sigmoid(compute, law))


def last_worthwhile(law: Law, threshold: float, now: float) -> float:
    """Last compute at or after `now` from which doubling brings at least the threshold; `now` where none
    does."""
    grid = now * np.geomspace(1.0, 1e6, 4001)
    gains = sigmoid(2 * grid, law) - sigmoid(grid, law)
    good = np.flatnonzero(gains >= threshold)
    return float(grid[good[-1]]) if len(good) else now
