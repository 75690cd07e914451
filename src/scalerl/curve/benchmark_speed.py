"""CPU time of fits, and how they compare with the source's procedure; peak memory."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Literal

import numpy as np

from scalerl.curve.fit import fit
from scalerl.curve.noise import NoiseKind
from scalerl.curve.series import FloatArray
from scalerl.curve.sigmoid import sigmoid
from scalerl.curve.source_grid import A_GRID, grid_fit
from scalerl.curve.table1 import TABLE_1
from scalerl.curve.varpro import Design, least_squares

POINTS, SD = 75, 0.003
REFITS = 1000


@dataclass(frozen=True)
class FitSpeed:
    """CPU milliseconds at the median: `scalerl.fit` alone, and with the 90% intervals of A, B and C_mid."""

    R0: str
    noise: str
    fit_ms: float
    with_intervals_ms: float


@dataclass(frozen=True)
class Throughput:
    """CPU seconds of 1,000 refits of a 75-point curve in one batch, and of one fit by the source's grid
    through SciPy; how many times slower that is than `scalerl.fit`, without and with intervals (R0 known,
    AR(1)); the process's peak memory.
    """

    thousand_refits_s: float
    thousand_refits_r0_free_s: float
    scipy_grid_s: float
    faster_than_scipy_grid: float
    faster_with_intervals: float
    peak_memory_mb: float


def simulated() -> tuple[FloatArray, FloatArray]:
    """Compute [75] and 1,000 curves of ScaleRL's row."""
    compute = np.linspace(1500, 20_000, POINTS)
    rng = np.random.default_rng(3)
    return compute, sigmoid(compute, TABLE_1["ScaleRL"]) + SD * rng.standard_normal((REFITS, POINTS))


def fit_speed(repeats: int = 101) -> list[FitSpeed]:
    """R0 known and free, correlation given and estimated."""
    cases: list[tuple[float | Literal["free"], NoiseKind]] = [
        (0.3, "white"),
        (0.3, "ar1"),
        ("free", "white"),
        ("free", "ar1"),
    ]
    out = []
    for r0, noise in cases:
        alone, whole = (1e3 * _median_fit(r0, noise, names, repeats) for names in ((), ("A", "B", "C_mid")))
        out.append(FitSpeed("free" if r0 == "free" else "known", noise, alone, whole))
    return out


def _median_fit(
    r0: float | Literal["free"], noise: NoiseKind, intervals: tuple[str, ...], repeats: int
) -> float:
    compute, y = simulated()

    def once(curve: FloatArray) -> None:
        found = fit(compute=compute, pass_rate=curve, r0=r0, noise=noise)
        for name in intervals:
            found.interval(name)

    return float(np.median([_timed(partial(once, y[k])) for k in range(repeats)]))


def throughput(fits: list[FitSpeed], grid_values_of_A: int = len(A_GRID)) -> Throughput:
    """Batches, and SciPy's grid on one curve (on fewer values of A, scaled up, where `grid_values_of_A` says
    so)."""
    compute, y = simulated()
    designs = [Design(np.log(compute), np.ones(POINTS), known) for known in (True, False)]
    known, free = (_timed(partial(least_squares, d, y, np.full(REFITS, 0.3))) for d in designs)
    some_A = A_GRID[:: len(A_GRID) // grid_values_of_A]
    grid = _timed(lambda: grid_fit(compute, y[0], 0.3, some_A)) * len(A_GRID) / len(some_A)
    ours = next(f for f in fits if f.R0 == "known" and f.noise == "ar1")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Throughput(known, free, grid, 1e3 * grid / ours.fit_ms, 1e3 * grid / ours.with_intervals_ms, peak)


def _timed(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin
