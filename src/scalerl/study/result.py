"""What a study found: each run's forecast from its first part, against what then happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl.curve.backtest import Backtest, backtest
from scalerl.curve.fitted import Fit, Interval
from scalerl.curve.series import Series
from scalerl.record.load import load
from scalerl.record.run import Run
from scalerl.study.plan import StudyPlan

LAST_SHARE = 0.25
"""The forecast is judged on the mean of the evaluations in this last share of the compute."""


@dataclass(frozen=True)
class RunResult:
    """One run's forecast and its check, in pass rate.

    `forecast` and `observed` are means over the last quarter of the compute; `covered` is the share of later
    evaluations inside the forecast's 90% interval for an evaluation. Where the first part can't be fitted
    (`fit.why` says why) there is no forecast: it, the error, the ceiling and `covered` are NaN.
    """

    name: str
    run: Run
    series: Series
    test: Backtest
    forecast: float
    observed: float

    @property
    def fit(self) -> Fit:
        """The law, fitted to the first part."""
        return self.test.fit

    @property
    def error(self) -> float:
        """Forecast minus observed."""
        return self.forecast - self.observed

    @property
    def covered(self) -> float:
        """Share of later evaluations inside their interval."""
        return self.test.scalerl.coverage if self.fit.fitted else math.nan

    def ceiling(self, level: float = 0.9) -> Interval:
        """The interval of the ceiling A."""
        return self.fit.interval("A", level) if self.fit.fitted else Interval(math.nan, math.nan)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers with stable names."""
        return {
            "name": self.name,
            "axis": self.series.axis,
            "forecast": self.forecast,
            "observed": self.observed,
            "error": self.error,
            "covered": self.covered,
            "fit": self.fit.to_dict(),
            "steps": len(self.run.steps),
            "final_pass_rate": float(self.series.pass_rate[-1]),
        }


def run_result(path: Path, fit_fraction: float) -> RunResult:
    """Fit the first `fit_fraction` of a record's compute and judge the forecast on its last quarter."""
    run = load(path)
    series = run.curve()
    (test,) = backtest(series, fit_fraction)
    late = series.compute > (1 - LAST_SHARE) * series.compute[-1]
    observed = float(series.pass_rate[late].mean())
    forecast = observed + test.scalerl.end_error if test.fit.fitted else math.nan
    return RunResult(run.name, run, series, test, forecast, observed)


def study_results(plan: StudyPlan, folder: Path) -> Sequence[RunResult]:
    """Return the results of all runs of a study, in the plan's order."""
    return [run_result(folder / "runs" / config.name, plan.fit_fraction) for config in plan.runs]


def as_text(value: float, form: str) -> str:
    """Return a number as tables write it, with a dash where there is none."""
    return "–" if math.isnan(value) else format(value, form)
