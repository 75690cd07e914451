"""A study's numbers as CSV: every evaluation, and every forecast against what happened."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from scalerl.record.schema import Evaluation
from scalerl.study.result import RunResult

EVALUATION_COLUMNS = (
    "run",
    "step",
    "repeat",
    "flops",
    "device_hours",
    "pass_rate",
    "stderr",
    "mean_length",
    "truncated",
)
FORECAST_COLUMNS = (
    "run",
    "axis",
    "points_fitted",
    "R0",
    "A",
    "A_lower",
    "A_upper",
    "identified",
    "B",
    "C_mid_share",
    "forecast",
    "observed",
    "error",
    "covered",
)


def write_tables(results: Sequence[RunResult], folder: Path) -> None:
    """Write `evaluations.csv` and `forecasts.csv`; intervals at 90%, C_mid as a share of the compute."""
    evaluations = (_evaluation(r.name, e) for r in results for e in r.run.evaluations)
    _write(folder / "evaluations.csv", EVALUATION_COLUMNS, evaluations)
    _write(folder / "forecasts.csv", FORECAST_COLUMNS, (_forecast(result) for result in results))


def _evaluation(run: str, e: Evaluation) -> tuple[object, ...]:
    compute = e.compute
    measured = (e.pass_rate, e.stderr, e.mean_length, e.truncated)
    return (run, e.step, e.repeat, compute.flops, compute.device_hours, *measured)


def _forecast(result: RunResult) -> tuple[object, ...]:
    fit, ceiling = result.fit, result.ceiling()
    numbers = (fit.R0, fit.A, ceiling.lower, ceiling.upper)
    return (
        result.name,
        result.series.axis,
        len(fit.used),
        *(round(x, 4) for x in numbers),
        fit.identified,
        round(fit.B, 3),
        round(fit.C_mid / float(result.series.compute[-1]), 4),
        *(round(x, 4) for x in (result.forecast, result.observed, result.error, result.covered)),
    )


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
