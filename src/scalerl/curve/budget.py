"""Who is best at a budget, and where curves cross: from draws of the recipes' curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import expit

from scalerl.curve.comparison import BestAt, Crossover, Recipe
from scalerl.curve.series import FloatArray

REACH = 100.0  # crossovers are looked for between 1/REACH and REACH times the last evaluation
GRID = 240


def mean_rate(draws: FloatArray, compute: FloatArray) -> FloatArray:
    """Mean over seeds of R at `compute` [k] for draws [size, seeds, 4] of (A, B, C_mid, R0): [size, k]."""
    A, B, C_mid, R0 = (draws[..., i, None] for i in range(4))
    g = expit(B * (np.log(compute) - np.log(C_mid)))
    return np.asarray((R0 + (A - R0) * g).mean(1))


def best_at(
    recipes: Sequence[Recipe], draws: Sequence[FloatArray], budgets: Sequence[float]
) -> tuple[BestAt, ...]:
    """Share of draws in which each recipe has the highest R, at every budget."""
    at = np.asarray(budgets, dtype=np.float64)
    rates = np.stack([mean_rate(one, at) for one in draws])  # [recipes, size, budgets]
    winner = rates.argmax(0)
    return tuple(
        BestAt(float(budget), tuple(float(np.mean(winner[:, k] == i)) for i in range(len(recipes))))
        for k, budget in enumerate(at)
    )


def crossovers(recipes: Sequence[Recipe], draws: Sequence[FloatArray]) -> tuple[Crossover, ...]:
    """The last crossing of every pair of curves."""
    last = max(float(one.series.compute[-1]) for recipe in recipes for one in recipe.fits)
    grid = last * np.geomspace(1 / REACH, REACH, GRID)
    rates = [mean_rate(one, grid) for one in draws]
    out = []
    for i, j in combinations(range(len(recipes)), 2):
        difference = rates[i] - rates[j]
        sign = np.signbit(difference)
        change = sign[:, 1:] != sign[:, :-1]
        crosses = change.any(-1)
        at = GRID - 2 - np.argmax(change[:, ::-1], axis=-1)
        rows = np.flatnonzero(crosses)
        k = at[rows]
        left, right = difference[rows, k], difference[rows, k + 1]
        share = left / np.where(left == right, 1.0, left - right)
        log_c = np.log(grid[k]) + share * (np.log(grid[k + 1]) - np.log(grid[k]))
        ends = np.exp(np.quantile(log_c, [0.5, 0.05, 0.95])) if len(rows) else np.full(3, np.nan)
        middle, low, high = (float(end) for end in ends)
        out.append(Crossover(recipes[i].name, recipes[j].name, middle, low, high, float(crosses.mean())))
    return tuple(out)
