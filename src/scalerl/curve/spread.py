"""The spread between seeds, the error of a difference that follows from it, and Holm's step-down over
several pairs.

With seeds: s, the standard deviation of the fitted A between seeds, pooled over recipes (it holds each fit's
own error already), df = seeds - recipes. With one seed each: a prior spread of 0.01 (worth 8 seeds) plus the
fits' own errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

PRIOR_SPREAD = 0.010
PRIOR_DEGREES = 8


@dataclass(frozen=True)
class Spread:
    """sd: between seeds; degrees: of freedom; source: 'seeds' or 'prior'."""

    sd: float
    degrees: int
    source: str

    def error_of_difference(self, first: Sequence[float], second: Sequence[float]) -> float:
        """Standard error of the difference of two recipes' mean A, from the errors of each recipe's fits."""
        if self.source == "seeds":
            return self.sd * float(np.sqrt(1 / len(first) + 1 / len(second)))
        own = [
            np.sum(np.square(group)) / len(group) ** 2 + self.sd**2 / len(group) for group in (first, second)
        ]
        return float(np.sqrt(sum(own)))

    def quantile(self, level: float) -> float:
        """Student's t at the spread's degrees of freedom."""
        return float(student.ppf(level, self.degrees))

    def p_value(self, difference: float, error: float) -> float:
        """Two-sided p of a difference under no difference."""
        return float(2 * student.sf(abs(difference) / max(error, 1e-12), self.degrees))


def pooled_spread(values: Sequence[ArrayLike]) -> Spread:
    """Pool the between-seed variance of A over recipes; the prior spread where no recipe has two seeds."""
    groups = [np.asarray(group, dtype=np.float64) for group in values]
    degrees = sum(len(group) - 1 for group in groups)
    if degrees == 0:
        return Spread(PRIOR_SPREAD, PRIOR_DEGREES, "prior")
    total = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
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
