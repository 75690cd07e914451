"""Measurements behind docs/bench-curve.md: recovery, least squares against the source's grid, comparisons."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scalerl.curve.compare import MARGIN, pair_verdict
from scalerl.curve.integrate import posterior
from scalerl.curve.noise import Noise
from scalerl.curve.series import FloatArray
from scalerl.curve.sigmoid import Law, sigmoid
from scalerl.curve.source_grid import A_GRID, C_MID_GRID, grid_fit, grid_fit_fast
from scalerl.curve.spread import pooled_spread
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares

SD = 0.003


@dataclass(frozen=True)
class Recovery:
    """Median errors on one row of Table 1: 40 evaluations from 1.5k to 50k, noise sd 0.003, R0 known."""

    row: str
    A_error: float
    B_error: float
    C_mid_relative_error: float


@dataclass(frozen=True)
class ComparisonRates:
    """Shares of trials by verdict, for a true dA, at a between-seed spread of A of 0.010."""

    seeds: int
    true_difference: float
    different: float
    equivalent: float
    trials: int


def recovery(curves: int, seed: int) -> list[Recovery]:
    """Every row of Table 1."""
    compute = np.linspace(1500, 50_000, 40)
    design, rng, out = Design(np.log(compute), np.ones(40)), np.random.default_rng([seed, 1]), []
    for row, law in TABLE_1.items():
        y = sigmoid(compute, law) + SD * rng.standard_normal((curves, 40))
        found = least_squares(design, y, np.full(curves, law.R0))
        errors = (found.A - law.A, np.exp(found.log_B) - law.B, np.exp(found.log_mid) / law.C_mid - 1)
        out.append(Recovery(row, *(float(np.median(np.abs(e))) for e in errors)))
    return out


def excess_over_grid(curves: int, seed: int) -> float:
    """Largest (our sum of squares - the grid's) over simulated curves of all rows; at most 1e-9 is wanted."""
    compute = np.linspace(1500, 50_000, 40)
    rng, worst = np.random.default_rng([seed, 2]), -np.inf
    laws = list(TABLE_1.values())
    for at in range(0, curves, 50):
        some = [laws[k % len(laws)] for k in range(at, min(at + 50, curves))]
        y = np.stack([sigmoid(compute, law) + SD * rng.standard_normal(40) for law in some])
        mine = least_squares(Design(np.log(compute), np.ones(40)), y, np.full(len(y), 0.3)).sse
        worst = max(worst, float((mine - grid_fit_fast(compute, y, 0.3)).max()))
    return worst


def fast_grid_against_scipy(seed: int, curves: int = 10, thin: int = 3) -> float:
    """Largest relative difference between the vectorised grid's sum of squares and the SciPy loop's, on every
    `thin`th value of A and of C_mid."""
    compute = np.linspace(1500, 50_000, 40)
    rng, worst = np.random.default_rng([seed, 6]), 0.0
    for law in list(TABLE_1.values())[:curves]:
        y = sigmoid(compute, law) + SD * rng.standard_normal(40)
        slow = grid_fit(compute, y, 0.3, A_GRID[::thin], C_MID_GRID[::thin])
        sse = float(((y - sigmoid(compute, slow)) ** 2).sum())
        fast = float(grid_fit_fast(compute, y[None], 0.3, A_GRID[::thin], C_MID_GRID[::thin])[0])
        worst = max(worst, abs(fast / sse - 1))
    return worst


def comparison_rates(seeds: int, true_difference: float, trials: int, seed: int) -> ComparisonRates:
    """Verdicts on two recipes with `seeds` runs each, windows 1.5k to 25k, 40 evaluations, spread of A
    0.010."""
    rng = np.random.default_rng([seed, 4, seeds, round(true_difference * 1000)])
    A = (
        0.60
        + np.array([0.0, true_difference])[None, :, None]
        + 0.010 * rng.standard_normal((trials, 2, seeds))
    )
    fitted, errors = _fitted_ceilings(A.ravel(), rng)
    fitted, errors = fitted.reshape(A.shape), errors.reshape(A.shape)
    verdicts = []
    for one, error in zip(fitted, errors, strict=True):
        spread = pooled_spread(one)
        difference = float(one[1].mean() - one[0].mean())
        size = spread.error_of_difference(list(error[0]), list(error[1]))
        verdicts.append(pair_verdict(difference, size, spread, MARGIN, spread.p_value(difference, size)))
    share = {v: verdicts.count(v) / trials for v in ("different", "equivalent")}
    return ComparisonRates(seeds, true_difference, share["different"], share["equivalent"], trials)


def _fitted_ceilings(A: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Fitted A and its error for runs with true ceilings A [m]."""
    compute = np.linspace(1500, 25_000, 40)
    design = Design(np.log(compute), np.ones(40))
    fitted, errors = [], []
    for at in range(0, len(A), 250):
        rates = np.stack([sigmoid(compute, Law(float(a), 1.92, 2542.0, 0.3)) for a in A[at : at + 250]])
        y = rates + SD * rng.standard_normal(rates.shape)
        found = least_squares(design, y, np.full(len(y), 0.3))
        post = posterior(compute, design, y, found, Noise("white"))
        fitted.append(found.A)
        errors.append((post.quantile_A(0.8413) - post.quantile_A(0.1587)) / 2)
    return np.concatenate(fitted), np.concatenate(errors)


def as_dicts(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows as plain dictionaries with stable names."""
    return [asdict(row) for row in rows]
