"""Backtest: fit the first part of a run, forecast the rest, and see how well that went, beside three
rivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scalerl.curve.fit import Fit, as_series, fit
from scalerl.curve.rivals import RIVALS
from scalerl.curve.series import FloatArray, Series
from scalerl.errors import UserError

CUTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Score:
    """How one forecaster did beyond the cut.

    end_error: mean forecast minus mean observation over the last quarter of the compute (or the held-out
    points, where the cut lies later); mean_abs_error, max_abs_error: over all held-out points; coverage:
    share of held-out points within the interval for an evaluation (NaN where the forecaster has none).
    """

    forecaster: str
    end_error: float
    mean_abs_error: float
    max_abs_error: float
    coverage: float


@dataclass(frozen=True)
class Backtest:
    """One run, one cut: the fit on the first part and the scores of all forecasters on the held-out
    points."""

    name: str
    fraction: float
    cut: float
    held_out_points: int
    fit: Fit
    scores: tuple[Score, ...]

    @property
    def scalerl(self) -> Score:
        """The law's own score."""
        return self.scores[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers with stable names."""
        return {
            "name": self.name,
            "fraction": self.fraction,
            "cut": self.cut,
            "held_out_points": self.held_out_points,
            "scores": [asdict(score) for score in self.scores],
            "fit": self.fit.to_dict(),
        }


def backtest(
    run: Any,
    fraction: float | Sequence[float] = CUTS,
    *,
    start: float | None = None,
    level: float = 0.9,
    set: str | None = None,
    axis: str | None = None,
    **fit_options: Any,
) -> list[Backtest]:
    """Fit up to each fraction of the last compute, judge on the rest; one result for each cut that leaves
    points.

    run: a Run, a Series or a list of them. fraction: of the last evaluation's compute, in (0, 1). start:
    compute before which nothing is fitted. level: of the interval whose coverage is scored. fit_options go to
    `scalerl.fit`.
    """
    fractions = [fraction] if isinstance(fraction, int | float) else list(fraction)
    for value in fractions:
        if not 0 < value < 1:
            raise UserError(f"backtest: fraction {value:g} isn't between 0 and 1")
    runs: Iterable[Any] = run if isinstance(run, list | tuple) else [run]
    results = []
    for one in runs:
        series = as_series(one, set=set, axis=axis)
        results += [
            done for f in fractions if (done := _one_cut(series, f, start, level, fit_options)) is not None
        ]
    return results


def _one_cut(
    series: Series, fraction: float, start: float | None, level: float, options: dict[str, Any]
) -> Backtest | None:
    cut = fraction * float(series.compute[-1])
    rest = series.between(np.nextafter(cut, np.inf), None)
    if len(rest) == 0:
        return None
    fitted = fit(series, window=(start, cut), **options)
    if not fitted.fitted:
        return Backtest(series.name, fraction, cut, len(rest), fitted, ())
    known = None if fitted.r0_mode == "free" else fitted.R0
    late = rest.compute >= min(0.75 * float(series.compute[-1]), float(rest.compute[-1]))
    prediction = fitted.predict(rest.compute, level)
    noise = evaluation_noise(fitted, rest)
    inside = within(prediction.lower, prediction.upper, prediction.mean, noise, level, rest.pass_rate)
    scores = [_score("sigmoid", prediction.mean, rest.pass_rate, late, float(inside.mean()))]
    for name, make in RIVALS.items():
        forecast = make(fitted.used.compute, fitted.used.pass_rate, known)(rest.compute)
        scores.append(_score(name, forecast, rest.pass_rate, late, float("nan")))
    return Backtest(series.name, fraction, cut, len(rest), fitted, tuple(scores))


def evaluation_noise(fitted: Fit, points: Series) -> FloatArray:
    """Noise sd of single evaluations at `points` [k]: the fit's noise, or their own stderr where it is
    larger."""
    own = np.full(len(points), fitted.sigma)
    return own if points.stderr is None else np.maximum(own, points.stderr)


def within(
    lower: FloatArray, upper: FloatArray, mean: FloatArray, noise: FloatArray, level: float, seen: FloatArray
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether evaluations `seen` [k] lie in the curve's interval widened by their own noise (in
    quadrature)."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2)) * noise
    high = mean + np.sqrt((upper - mean) ** 2 + z**2)
    low = mean - np.sqrt((mean - lower) ** 2 + z**2)
    return (seen >= low) & (seen <= high)


def _score(
    name: str,
    forecast: FloatArray,
    seen: FloatArray,
    late: np.ndarray[Any, np.dtype[np.bool_]],
    coverage: float,
) -> Score:
    error = forecast - seen
    return Score(
        name, float(error[late].mean()), float(np.abs(error).mean()), float(np.abs(error).max()), coverage
    )
