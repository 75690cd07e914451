"""From the log's values to pass rates in 0..1: percent and -1..1 are never guessed, sums are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalerl.errors import UserError
from scalerl.record.choice import ChoiceNeeded, listing

Floats = npt.NDArray[np.float64]
SCALES = ("unit", "percent", "pm1")
_EDGE = 1e-6  # a mean of float32 may lie that far beyond its range
_RATE_LIKE = re.compile(r"acc|pass|percent|pct|solve|success|correct|score|(?<![a-z])em\b", re.IGNORECASE)
LARGEST_STD = 0.7072  # of values within 0..1: two samples, one 0 and one 1, with n - 1


@dataclass(frozen=True)
class Evidence:
    """What else the log says of single rewards: range [low, high], largest deviation, how many are summed."""

    low: float = 0.0
    high: float = 1.0
    std: float = 0.0
    field: str = ""
    sum_of: int = 1

    @property
    def outside(self) -> bool:
        """Whether single rewards are seen outside 0..1."""
        return self.low < -_EDGE or self.high > 1 + _EDGE or self.std > LARGEST_STD


def to_rates(
    values: Floats,
    name: str,
    scale: str | None,
    evidence: Evidence,
    where: str,
    limits: tuple[float, float] | None,
    rates: list[str],
) -> tuple[Floats, str]:
    """Pass rates [n] of values [n], and the scale's name. `rates` are other fields that lie in 0..1.

    `limits` are those of all values that the log holds, where [n] are only some of them.
    """
    low, high = limits or (float(values.min()), float(values.max()))
    if scale is None:
        if low >= -_EDGE and high <= 1 + _EDGE and not evidence.outside:
            return np.clip(values, 0.0, 1.0), "unit"
        raise _question(name, low, high, evidence, where, rates)
    bottom, top = bounds(scale)
    span = top - bottom
    if low < bottom - _EDGE * span or high > top + _EDGE * span:
        other = f"; fields in 0..1: {listing(rates)}" if rates else ""
        raise UserError(
            f"{where}: {name} has values {low:g}..{high:g}, outside {bottom:g}..{top:g} of --scale {scale}: "
            f"not a pass rate on that scale{other}"
        )
    return np.clip((values - bottom) / span, 0.0, 1.0), scale


def bounds(scale: str) -> tuple[float, float]:
    """The values that mean pass rate 0 and 1 on a scale: unit, percent, pm1 or LOW:HIGH."""
    known = {"unit": (0.0, 1.0), "fraction": (0.0, 1.0), "percent": (0.0, 100.0), "pm1": (-1.0, 1.0)}
    if scale in known:
        return known[scale]
    if match := re.fullmatch(r"(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)", scale):
        bottom, top = float(match[1]), float(match[2])
        if top > bottom:
            return bottom, top
    raise UserError(f"--scale {scale}: say unit, percent, pm1, or LOW:HIGH (the rewards of wrong and right)")


def _question(
    name: str, low: float, high: float, evidence: Evidence, where: str, rates: list[str]
) -> UserError:
    instead = f", or --y with a field in 0..1: {listing(rates)}" if rates else ""
    have = f"{where}: {name} has values {low:g}..{high:g}"
    if low >= -_EDGE and high <= 1 + _EDGE:
        spread = (
            f"{evidence.low:g}..{evidence.high:g}" if evidence.low < 0 or evidence.high > 1 else evidence.std
        )
        return ChoiceNeeded(
            f"{have}, but {evidence.field} reaches {spread}: single rewards lie outside 0..1, "
            "so their mean is no pass rate; say --scale LOW:HIGH (wrong and right), --scale unit to take it "
            f"as it is{instead}",
            "scale",
            SCALES,
        )
    inside = low >= -1 - _EDGE and high <= 1 + _EDGE and evidence.low >= -1 and evidence.high <= 1
    if low < 0 and inside and evidence.sum_of < 2:
        return ChoiceNeeded(
            f"{have}: rewards of -1 and 1? say --scale pm1 (then 0 is a pass rate of 0.5), or "
            f"--scale LOW:HIGH, or --scale unit if they are rates{instead}",
            "scale",
            SCALES,
        )
    if low >= 0 and 1 < high <= 100 and _RATE_LIKE.search(name):
        return ChoiceNeeded(
            f"{have}: percent? say --scale percent, or --scale LOW:HIGH if it's a reward{instead}",
            "scale",
            SCALES,
        )
    return UserError(
        f"{have}: an unbounded reward or a sum of several, not a pass rate; say --scale LOW:HIGH if "
        f"wrong and right have these rewards{instead}"
    )
