"""What the sigmoid has to beat in a backtest: a power law, an exponential saturation, and 'the last value
stays'.

Each rival is fitted to the points of a window and forecasts the rest; A is bounded to 1 as in the law's own
fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalerl.curve.series import FloatArray

Forecaster = Callable[[FloatArray], FloatArray]
EXPONENTS = np.geomspace(0.03, 6.0, 160)
RATES = np.geomspace(0.02, 60.0, 240)


def power_law(compute: FloatArray, rate: FloatArray, r0: float | None) -> Forecaster:
    """R = A - D C^-b with A <= 1, D >= 0 (pre-training's law): least squares over a grid of b. r0 has no
    place in it."""
    low = compute[0]
    columns = (compute / low)[None, :] ** -EXPONENTS[:, None]
    b, A, D = _best_falling(EXPONENTS, columns, rate)
    return lambda c: A - D * (np.maximum(c, low * 1e-3) / low) ** -b


def exponential(compute: FloatArray, rate: FloatArray, r0: float | None) -> Forecaster:
    """R = A - D exp(-k C / C_end) with A <= 1, D >= 0: saturation at a constant rate. r0, where known, fixes
    A - D."""
    end = compute[-1]
    columns = np.exp(-RATES[:, None] * compute / end)
    if r0 is None:
        k, A, D = _best_falling(RATES, columns, rate)
        return lambda c: A - D * np.exp(-k * c / end)
    rise = 1 - columns
    gain = np.clip((rise @ (rate - r0)) / (rise**2).sum(-1), 0.0, 1.0 - r0)
    at = int(np.argmin(((rate - r0 - gain[:, None] * rise) ** 2).sum(-1)))
    best_rate, best_gain = float(RATES[at]), float(gain[at])
    return lambda c: r0 + best_gain * (1 - np.exp(-best_rate * c / end))


def last_value(compute: FloatArray, rate: FloatArray, r0: float | None) -> Forecaster:
    """The mean of the last evaluations (a tenth of them, at least one, at most five) stays for ever."""
    kept = float(rate[-min(5, max(1, len(rate) // 10)) :].mean())
    return lambda c: np.full(np.shape(c), kept)


RIVALS: dict[str, Callable[[FloatArray, FloatArray, float | None], Forecaster]] = {
    "power law": power_law,
    "exponential": exponential,
    "last value": last_value,
}


def _best_falling(grid: FloatArray, columns: FloatArray, rate: FloatArray) -> tuple[float, float, float]:
    """Least squares of rate [n] = A - D * column over candidate columns [k, n], D >= 0, A <= 1: (grid value,
    A, D)."""
    mean_x, mean_y = columns.mean(-1), rate.mean()
    centred = columns - mean_x[:, None]
    D = np.maximum(-(centred @ (rate - mean_y)) / np.maximum((centred**2).sum(-1), 1e-300), 0.0)
    A = mean_y + D * mean_x
    over = A > 1
    bounded = np.maximum((columns @ (1 - rate)) / (columns**2).sum(-1), 0.0)
    A, D = np.where(over, 1.0, A), np.where(over, bounded, D)
    at = int(np.argmin(((rate - A[:, None] + D[:, None] * columns) ** 2).sum(-1)))
    return float(grid[at]), float(A[at]), float(D[at])
