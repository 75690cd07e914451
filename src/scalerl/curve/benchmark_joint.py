"""Do the three intervals of a joint fit hold? Simulated recipes whose seeds differ, fitted run by run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from scalerl.curve.integrate import posterior
from scalerl.curve.joint import Parameter, random_effects
from scalerl.curve.noise import Noise
from scalerl.curve.series import FloatArray
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares

SEEDS = (2, 3, 5)
SPREADS = (0.5, 1.0, 2.0)  # times the spreads below
SPREAD: dict[Parameter, float] = {"A": 0.010, "log_B": 0.10, "log_C_mid": 0.10}
NOISE_SD, POINTS, START, END = 0.003, 40, 1500.0, 25_000.0
BATCH = 250


@dataclass(frozen=True)
class JointCoverage:
    """Shares of trials whose 90% interval holds its own quantity: the first run's value, the recipe's mean,
    one more seed's value."""

    parameter: str
    seeds: int
    between_seed_sd: float
    trials: int
    this_run: float
    recipe_mean: float
    next_seed: float


def joint_coverage(trials: int, seed: int) -> list[JointCoverage]:
    """Every number of seeds and spread: ScaleRL's row, R0 known, windows 1.5k to 25k, 40 evaluations, white
    noise 0.003."""
    out = []
    for seeds in SEEDS:
        for scale in SPREADS:
            rng = np.random.default_rng([seed, 5, seeds, round(10 * scale)])
            out += _case(seeds, scale, trials, rng)
    return out


def _case(seeds: int, scale: float, trials: int, rng: np.random.Generator) -> list[JointCoverage]:
    row = TABLE_1["ScaleRL"]
    centre = {"A": row.A, "log_B": float(np.log(row.B)), "log_C_mid": float(np.log(row.C_mid))}
    true = {
        name: centre[name] + scale * SPREAD[name] * rng.standard_normal((trials, seeds + 1))
        for name in SPREAD
    }  # the last column is the next seed
    flat = {name: values[:, :-1].ravel() for name, values in true.items()}
    seen = _fitted(flat["A"], flat["log_B"], flat["log_C_mid"], rng)
    out = []
    for name in SPREAD:
        values, errors = (column.reshape(trials, seeds) for column in seen[name])
        hits = np.zeros(3)
        for k in range(trials):
            joint = random_effects(values[k], errors[k], name)
            ends = (joint.run_intervals[0], joint.mean_interval, joint.next_seed_interval)
            wanted = (true[name][k, 0], centre[name], true[name][k, -1])
            hits += [e.lower <= v <= e.upper for e, v in zip(ends, wanted, strict=True)]
        shares = (float(h) for h in hits / trials)
        out.append(JointCoverage(name, seeds, scale * SPREAD[name], trials, *shares))
    return out


def _fitted(
    A: FloatArray, log_B: FloatArray, log_mid: FloatArray, rng: np.random.Generator
) -> dict[Parameter, tuple[FloatArray, FloatArray]]:
    """Estimates and errors (half the width of the central 68%, as joint.estimate_and_error takes them) of
    runs with the true parameters [m]."""
    compute = np.linspace(START, END, POINTS)
    x = np.log(compute)
    design = Design(x, np.ones(POINTS))
    parts: dict[Parameter, list[tuple[FloatArray, FloatArray]]] = {name: [] for name in SPREAD}
    for at in range(0, len(A), BATCH):
        part = slice(at, at + BATCH)
        rise = expit(np.exp(log_B[part, None]) * (x - log_mid[part, None]))
        y = 0.3 + (A[part, None] - 0.3) * rise
        y = y + NOISE_SD * rng.standard_normal(y.shape)
        found = least_squares(design, y, np.full(len(y), 0.3))
        post = posterior(compute, design, y, found, Noise("white"))
        low, high = (1 - 0.6827) / 2, (1 + 0.6827) / 2
        ends_A = (post.quantile_A(low), post.quantile_A(high))
        ends_B = tuple(np.log(post.quantile(*post.B(), q)) for q in (low, high))
        ends_mid = tuple(post.quantile(*post.log_mid(), q) for q in (low, high))
        for name, value, (lower, upper) in (
            ("A", found.A, ends_A),
            ("log_B", found.log_B, ends_B),
            ("log_C_mid", found.log_mid, ends_mid),
        ):
            parts[name].append((value, (upper - lower) / 2))  # type: ignore[index]
    return {
        name: (np.concatenate([v for v, _ in pairs]), np.concatenate([e for _, e in pairs]))
        for name, pairs in parts.items()
    }
