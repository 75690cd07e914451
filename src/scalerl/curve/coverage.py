"""Do the intervals hold at the rate they claim? Simulated curves of Table 1's rows, 480 scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from scalerl.curve.identify import ar1_noise
from scalerl.curve.integrate import posterior
from scalerl.curve.noise import Noise
from scalerl.curve.series import FloatArray
from scalerl.curve.sigmoid import Law, gain_share, sigmoid
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares
from scalerl.curve.verdict import MARGIN, WEAK_MARGIN
from scalerl.curve.weights import weigh

START = 1500.0
WINDOW_ENDS = (8_000.0, 25_000.0, 50_000.0)
POINTS = (40, 75)
NOISES = ("white 0.003", "white 0.005", "AR(1) 0.005", "binomial")
AR1_CORRELATION = 0.7
BINOMIAL_COUNT = 1000 * 16
FAR = 100_000.0
BATCH = 125


@dataclass(frozen=True)
class Scenario:
    """One row of Table 1 under one design and noise."""

    row: str
    r0_known: bool
    points: int
    window_end: float
    noise: str

    @property
    def law(self) -> Law:
        """The true curve."""
        return TABLE_1[self.row]

    @property
    def noise_given(self) -> bool:
        """White noise is analysed as white; else the correlation is estimated."""
        return self.noise.startswith("white")


@dataclass(frozen=True)
class Coverage:
    """Shares over the simulated curves: 90% intervals that hold A and R(100k); verdicts; mean errors."""

    scenario: Scenario
    curves: int
    covers_A: float
    covers_R: float
    says_yes: float
    says_no: float
    yes_but_wrong: float
    mean_error_A: float
    mean_width_A: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable names."""
        out = asdict(self)
        return out.pop("scenario") | out

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Coverage:
        """The inverse of to_dict; further keys are ignored."""
        own = {field.name: row[field.name] for field in fields(cls) if field.name != "scenario"}
        return cls(Scenario(**{field.name: row[field.name] for field in fields(Scenario)}), **own)


def scenarios() -> Iterator[Scenario]:
    """All 480: ten rows x R0 known or free x 40 or 75 points x three windows x four noises."""
    for row, known, points, end, noise in product(TABLE_1, (True, False), POINTS, WINDOW_ENDS, NOISES):
        yield Scenario(row, known, points, end, noise)


def simulate(scenario: Scenario, curves: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Compute [n] and curves [m, n] with the scenario's noise."""
    compute = np.linspace(START, scenario.window_end, scenario.points)
    mean = sigmoid(compute, scenario.law)
    shape = (curves, len(compute))
    if scenario.noise == "binomial":
        return compute, rng.binomial(BINOMIAL_COUNT, mean, size=shape) / BINOMIAL_COUNT
    sd = float(scenario.noise.split()[1])
    return compute, mean + ar1_noise(rng, shape, sd, 0.0 if scenario.noise_given else AR1_CORRELATION)


def measure(scenario: Scenario, curves: int, seed: int, first_batch: int = 0) -> Coverage:
    """Simulate, fit and count, in batches of 125 curves.

    Every batch has a random stream of its own (seed, scenario, number of the batch), so that rounds add up to
    the same curves as one long run.
    """
    key = [seed, list(TABLE_1).index(scenario.row), scenario.points, int(scenario.window_end)]
    key += [NOISES.index(scenario.noise), int(scenario.r0_known)]
    sizes = [min(BATCH, curves - at) for at in range(0, curves, BATCH)]
    parts = [
        _batch(scenario, size, np.random.default_rng([*key, first_batch + k])) for k, size in enumerate(sizes)
    ]
    A, lower, upper, holds_R = (np.concatenate(column) for column in zip(*parts, strict=True))
    true = scenario.law.A
    half = np.maximum(upper - A, A - lower)
    yes = half <= MARGIN
    return Coverage(
        scenario,
        curves,
        float(np.mean((lower <= true) & (true <= upper))),
        float(holds_R.mean()),
        float(yes.mean()),
        float(np.mean(half > WEAK_MARGIN)),
        float(np.mean(yes & (np.abs(A - true) > MARGIN))),
        float(np.mean(np.abs(A - true))),
        float(np.mean(upper - lower)),
    )


def pool(parts: Sequence[Coverage]) -> Coverage:
    """One scenario's rounds, weighted by their curves."""
    weight = np.array([part.curves for part in parts], dtype=np.float64)
    columns = ("covers_A", "covers_R", "says_yes", "says_no", "yes_but_wrong", "mean_error_A", "mean_width_A")
    means = [float(np.average([getattr(part, c) for part in parts], weights=weight)) for c in columns]
    return Coverage(parts[0].scenario, int(weight.sum()), *means)


def _batch(
    scenario: Scenario, curves: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """A, ends of its 90% interval, and whether the interval of R(100k) holds the truth, for one batch [m]
    each."""
    compute, y = simulate(scenario, curves, rng)
    weight = np.ones(len(compute))
    if scenario.noise == "binomial":
        mean = y.mean(0)
        weight = weigh(np.sqrt(mean * (1 - mean) / BINOMIAL_COUNT), "binomial", 0.0).weight
    design = Design(np.log(compute), weight, scenario.r0_known)
    solution = least_squares(design, y, np.full(curves, scenario.law.R0))
    post = posterior(compute, design, y, solution, Noise("white" if scenario.noise_given else "ar1"))
    lower = np.minimum(post.quantile_A(0.05), solution.A)
    upper = np.maximum(post.quantile_A(0.95), solution.A)
    true = float(sigmoid(FAR, scenario.law))
    below = post.cdf(
        *post.rate_at(np.log(FAR)), np.full(curves, true)
    )  # where the truth lies in the posterior
    g = gain_share(FAR, np.exp(solution.log_B), np.exp(solution.log_mid))
    estimate = solution.R0 + (solution.A - solution.R0) * g
    above_lower = (below.max(0) >= 0.05) | (estimate <= true)
    under_upper = (below.min(0) <= 0.95) | (estimate >= true)
    return solution.A, lower, upper, above_lower & under_upper
