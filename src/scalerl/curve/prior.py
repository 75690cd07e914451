"""The weak prior on log B and log C_mid: what curves of this kind look like, for windows with few points."""

from __future__ import annotations

from typing import Literal

import numpy as np

from scalerl.curve.series import Series
from scalerl.errors import UserError

PriorName = Literal["auto", "weak", "none"]

FEW_POINTS = 30  # 'auto' switches the prior on below this many points
LOG_B_MEAN, LOG_B_SD = (
    float(np.log(1.8)),
    0.5,
)  # Table 1: B from 1.09 to 2.44, sd of log B 0.22; here twice as wide
LOG_MID_SD = 1.5  # around half of the window's end; Table 1's C_mid spread over a factor of 7


def prior_for(name: PriorName, used: Series, sigma: float) -> tuple[float, float, float, float, float] | None:
    """The penalty (mean log B, sd, mean log C_mid, sd, sigma) for the points of a window, or None."""
    if name not in ("auto", "weak", "none"):
        raise UserError(f"prior {name!r} isn't known; use 'auto', 'weak' or 'none'")
    if name == "none" or (name == "auto" and len(used) >= FEW_POINTS):
        return None
    return (LOG_B_MEAN, LOG_B_SD, float(np.log(used.compute[-1] / 2)), LOG_MID_SD, sigma)
