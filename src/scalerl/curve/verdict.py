"""Whether the ceiling is in the data, said in a word and in a sentence."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from scalerl.curve.shape import Shape
from scalerl.curve.sigmoid import Law

Identified = Literal["yes", "weak", "no"]
MARGIN = 0.02  # of A: the source's error margin from three runs (A.5)
WEAK_MARGIN = 0.05


class Judgement(NamedTuple):
    """identified: 'yes', 'weak' or 'no'; verdict: 'ok' or what is wrong; why: a sentence."""

    identified: Identified
    verdict: str
    why: str


def grade(estimate: float, lower: float, upper: float) -> Identified:
    """'yes' when both half-widths of the 90% interval of A are within 0.02, 'weak' within 0.05, else 'no'."""
    half = max(upper - estimate, estimate - lower)
    return "yes" if half <= MARGIN else "weak" if half <= WEAK_MARGIN else "no"


def judge(
    shape: Shape,
    law: Law,
    ends: tuple[float, float],
    window: tuple[float, float],
    unit: str,
    b_at_bound: bool,
) -> Judgement:
    """Join what the points' shape says with the interval of A."""
    if shape.verdict != "ok":
        return Judgement("no", shape.verdict, shape.why)
    identified = grade(law.A, *ends)
    half = max(ends[1] - law.A, law.A - ends[0])
    span = f"the window ends at {window[1] / law.C_mid:.2g} C_mid ({window[1]:.4g} {unit})"
    between = f"A is {law.A:.3f}, 90% interval {ends[0]:.3f} to {ends[1]:.3f}"
    if identified == "yes":
        return Judgement("yes", "ok", f"{between}, within the margin of {MARGIN:g}; {span}")
    if law.A >= 1 - 1e-9 and half > WEAK_MARGIN:
        text = f"A runs into its bound at 1 (90% from {ends[0]:.3f}): the ceiling isn't in the data yet"
        return Judgement("no", "bound", f"{text}; {span}")
    if b_at_bound:
        text = f"B runs into its bound ({law.B:.3g}): too few points on the rise to tell its steepness"
        return Judgement(identified if np.isfinite(half) else "no", "bound", f"{text}; {between}; {span}")
    if identified == "weak":
        return Judgement("weak", "ok", f"{between}, within {WEAK_MARGIN:g} but not {MARGIN:g}; {span}")
    return Judgement("no", "ok", f"{between}: the ceiling isn't in the data; {span}")
