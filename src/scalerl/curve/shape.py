"""What can be said of a curve before anything is fitted: too few points, no rise, a collapse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalerl.curve.series import FloatArray, Series

Verdict = Literal["ok", "bound", "no-rise", "collapse", "too-few", "all-zero", "all-equal", "beyond-data"]

COLLAPSE_SHARE = 0.25  # of the gain lost after the peak
COLLAPSE_SIGMAS = 4.0  # of the noise of the two means compared
RISE_SIGMAS = 3.0


@dataclass(frozen=True)
class Shape:
    """A verdict on the points of a window with its sentence, and for a collapse the compute of the peak."""

    verdict: Verdict
    why: str
    peak_at: float | None = None


def examine(used: Series, least_points: int, r0: float | None) -> Shape:
    """Look at the points of the window; `least_points` is what the fit needs, r0 the start where it is
    known."""
    rate = used.pass_rate
    if len(used) == 0:
        return Shape("beyond-data", "no evaluation lies in the window")
    if len(used) < least_points:
        return Shape("too-few", f"{len(used)} evaluations in the window; a fit needs at least {least_points}")
    if not rate.any():
        return Shape(
            "all-zero", "every evaluation is 0: nothing has been learnt yet, or the verifier never passes"
        )
    if np.ptp(rate) == 0:
        return Shape("all-equal", f"every evaluation is {rate[0]:.4g}: there is no curve to fit")
    collapse = find_collapse(used.compute, rate, r0)
    if collapse is not None:
        peak_at, peak, last = collapse
        fall = f"from {peak:.3f} (near {peak_at:.4g} {used.unit}) to {last:.3f}"
        text = f"the pass rate fell {fall}: a collapse, which the law has no room for; the fit ends before it"
        return Shape("collapse", text, peak_at)
    if not rises(rate, r0):
        return Shape("no-rise", "the pass rate doesn't rise beyond its noise in the window")
    return Shape("ok", "")


def point_noise(rate: FloatArray) -> float:
    """Noise sd of one point from successive second differences: a smooth trend cancels (n >= 3)."""
    if len(rate) < 3:
        return 0.0
    second = rate[2:] - 2 * rate[1:-1] + rate[:-2]
    return float(np.sqrt(np.mean(second**2) / 6))


def find_collapse(
    compute: FloatArray, rate: FloatArray, r0: float | None
) -> tuple[float, float, float] | None:
    """(compute of the peak, mean there, mean at the end) when a quarter of the gain is lost after it, else
    None."""
    n = len(rate)
    width = max(2, n // 12)
    if n < 2 * width + 2:
        return None
    means = np.convolve(rate, np.full(width, 1 / width), mode="valid")
    top = int(np.argmax(means))
    peak, last = float(means[top]), float(means[-1])
    base = min(float(rate[: top + 1].min()), r0 if r0 is not None else 1.0)
    noise = point_noise(rate) * np.sqrt(2 / width)
    lost = peak - last
    # the largest of many means lies above the truth by chance; the extra sigmas allow for that
    if top + width >= n or lost <= max(COLLAPSE_SHARE * (peak - base), COLLAPSE_SIGMAS * noise, 0.01):
        return None
    return float(compute[min(top + width - 1, n - 1)]), peak, last


def rises(rate: FloatArray, r0: float | None) -> bool:
    """Whether the last third lies above the first third (or above R0) by more than the noise of the two
    means."""
    third = max(1, len(rate) // 3)
    noise = point_noise(rate)
    late = float(rate[-third:].mean())
    early = float(rate[:third].mean()) if r0 is None else min(r0, float(rate[:third].mean()))
    return late - early > RISE_SIGMAS * noise * np.sqrt(2 / third)
