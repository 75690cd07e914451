"""The spread between seeds, the error of a difference that follows from it, and Holm's step-down over
several pairs.

With seeds: s, the standard deviation of the fitted A between seeds, pooled over recipes (it holds each fit's
own error
already), df = seeds - recipes. With one seed each: a prior spread of 0.01 (worth 8 seeds) plus the fits' own
errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from scalerl.curve.comparison import Recipe

PRIOR_SPREAD = 0.010
PRIOR_DEGREES = 8


@dataclass(frozen=True)
class Spread:
    """sd: between seeds; degrees: of freedom; source: 'seeds' or 'prior'."""

    sd: float
    degrees: int
    source: str

    def error_of_difference(self, a: Recipe, b: Recipe) -> float:
        """Standard error of the difference of two recipes' mean A."""
        if self.source == "seeds":
            return self.sd * float(np.sqrt(1 / len(a.fits) + 1 / len(b.fits)))
        own = [recipe.error_of_mean("A") ** 2 + self.sd**2 / len(recipe.fits) for recipe in (a, b)]
        return float(np.sqrt(sum(own)))

    def quantile(self, level: float) -> float:
        """Student's t at the spread's degrees of freedom."""
        return float(student.ppf(level, self.degrees))

    def p_value(self, difference: float, error: float) -> float:
        """Two-sided p of a difference under no difference."""
        return float(2 * student.sf(abs(difference) / max(error, 1e-12), self.degrees))


def pooled_spread(values: Sequence[Sequence[float]], errors: Sequence[float] = ()) -> Spread:
    """Pool the between-seed variance of A over recipes; the prior spread where no recipe has two seeds."""
    degrees = sum(len(group) - 1 for group in values)
    if degrees == 0:
        return Spread(PRIOR_SPREAD, PRIOR_DEGREES, "prior")
    total = sum(float(np.sum((np.asarray(group) - np.mean(group)) ** 2)) for group in values)
    return Spread(float(np.sqrt(total / degrees)), degrees, "seeds")


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    running = 0.0
    for rank, at in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = running
    return [float(p) for p in adjusted]
