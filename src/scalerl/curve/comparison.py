"""What a comparison of recipes holds, and its verdict in a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from scalerl.curve.fitted import Fit, Interval
from scalerl.curve.joint import Parameter, estimate_and_error
from scalerl.curve.series import FloatArray
from scalerl.curve.spread import Spread

Verdict = Literal["different", "equivalent", "undecided"]
DRAWS = 2000


@dataclass(frozen=True)
class Recipe:
    """A recipe's fits, one a seed."""

    name: str
    fits: tuple[Fit, ...]

    def mean(self, parameter: Parameter) -> float:
        """Mean over seeds of A, log B or log C_mid."""
        return float(np.mean([estimate_and_error(one, parameter)[0] for one in self.fits]))

    def error_of_mean(self, parameter: Parameter) -> float:
        """Error of that mean from the fits' own errors alone."""
        errors = [estimate_and_error(one, parameter)[1] for one in self.fits]
        return float(np.sqrt(np.sum(np.square(errors)))) / len(errors)

    def draws(self, between_seed_sd: float, rng: np.random.Generator, size: int = DRAWS) -> FloatArray:
        """Draws [size, seeds, 4] of (A, B, C_mid, R0), the recipe's mean A moved by the between-seed error
        of a mean."""
        runs = np.stack([np.stack(one.posterior.draw(size, rng), -1) for one in self.fits], 1)
        shift = between_seed_sd / np.sqrt(len(self.fits)) * rng.standard_normal(size)
        runs[..., 0] = np.clip(runs[..., 0] + shift[:, None], runs[..., 3] + 1e-6, 1.0)
        return runs


@dataclass(frozen=True)
class Ceiling:
    """A pair's ceilings: indices of the recipes, dA = A_first - A_second, its 95% interval, Holm-adjusted p,
    verdict."""

    first: int
    second: int
    difference: float
    lower: float
    upper: float
    p_value: float
    verdict: Verdict


@dataclass(frozen=True)
class Efficiency:
    """A pair refitted with a common A: ratio of B and of C_mid (first over second), 95% intervals and
    p-values."""

    first: str
    second: str
    common_A: float
    B_ratio: float
    B_ratio_interval: Interval
    B_p_value: float
    C_mid_ratio: float
    C_mid_ratio_interval: Interval
    C_mid_p_value: float
    spread_from: str


@dataclass(frozen=True)
class Crossover:
    """Where the curves of a pair cross last: median and 90% interval of the compute over the draws that
    cross, and the probability that they cross at all between 1/100 and 100 times the last evaluation.
    """

    first: str
    second: str
    compute: float
    lower: float
    upper: float
    probability: float


@dataclass(frozen=True)
class BestAt:
    """Probability that each recipe (in order) has the highest R at one budget."""

    budget: float
    probability: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """All that `scalerl compare` says; `str()` of it is the verdict in a sentence."""

    recipes: tuple[Recipe, ...]
    margin: float
    spread: Spread
    ceilings: tuple[Ceiling, ...]
    efficiencies: tuple[Efficiency, ...]
    best: tuple[BestAt, ...]
    crossovers: tuple[Crossover, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the two highest ceilings."""
        return self._leading().verdict

    @property
    def sentence(self) -> str:
        """The verdict in a sentence, about the two recipes with the highest ceilings."""
        return self.describe(self._leading())

    def describe(self, pair: Ceiling) -> str:
        """One pair's verdict in a sentence."""
        high, low = (pair.first, pair.second) if pair.difference >= 0 else (pair.second, pair.first)
        a, b = self.recipes[high], self.recipes[low]
        numbers = f"{a.mean('A'):.3f} against {b.mean('A'):.3f}, {abs(pair.difference):+.3f}"
        if pair.verdict == "different":
            return f"{a.name} has the higher ceiling: {numbers}, margin {self.margin:.3f}"
        ends = (
            f"95% interval of the difference {pair.lower:+.3f} to {pair.upper:+.3f}, margin {self.margin:.3f}"
        )
        if pair.verdict == "equivalent":
            return (
                f"{a.name} and {b.name} have equivalent ceilings: {numbers}; {ends}{self._efficiency(pair)}"
            )
        return f"undecided between {a.name} and {b.name}: {numbers}; {ends}; more seeds would tell"

    def _efficiency(self, pair: Ceiling) -> str:
        names = {self.recipes[pair.first].name, self.recipes[pair.second].name}
        for one in self.efficiencies:
            if {one.first, one.second} == names:
                if one.B_p_value >= 0.05:
                    return "; no difference in efficiency B is shown at the common ceiling"
                better = one.first if one.B_ratio > 1 else one.second
                return (
                    f"; {better} is the more efficient at the common ceiling (ratio of B {one.B_ratio:.2f})"
                )
        return ""

    def _leading(self) -> Ceiling:
        order = np.argsort([-recipe.mean("A") for recipe in self.recipes])
        top = {int(order[0]), int(order[1])}
        return next(pair for pair in self.ceilings if {pair.first, pair.second} == top)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable names."""
        names = [recipe.name for recipe in self.recipes]
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "margin": self.margin,
            "between_seed_sd": self.spread.sd,
            "degrees_of_freedom": self.spread.degrees,
            "spread_from": self.spread.source,
            "recipes": [
                {"name": r.name, "A": r.mean("A"), "seeds": [one.to_dict() for one in r.fits]}
                for r in self.recipes
            ],
            "ceilings": [
                asdict(c) | {"first": names[c.first], "second": names[c.second], "sentence": self.describe(c)}
                for c in self.ceilings
            ],
            "efficiencies": [asdict(e) for e in self.efficiencies],
            "best_at": [
                {"budget": b.budget, "probability": dict(zip(names, b.probability, strict=True))}
                for b in self.best
            ],
            "crossovers": [asdict(c) for c in self.crossovers],
        }
