"""Eq. 1, R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B), its inverse and its linearised form (Fig. 7)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from scalerl.curve.series import FloatArray


class Law(NamedTuple):
    """The four parameters of Eq. 1: A, B > 0, C_mid > 0 (compute unit of the curve), R0."""

    A: float
    B: float
    C_mid: float
    R0: float


def gain_share(compute: ArrayLike, B: ArrayLike, C_mid: ArrayLike) -> FloatArray:
    """Share of the total gain A - R0 reached at `compute` (any shape, >= 0): 1 / (1 + (C_mid / C)^B), in [0,
    1]."""
    with np.errstate(divide="ignore"):  # log 0 = -inf gives the right share, 0
        log_ratio = np.log(np.asarray(compute, dtype=np.float64)) - np.log(C_mid)
    return np.asarray(expit(np.asarray(B) * log_ratio))


def sigmoid(compute: ArrayLike, law: Law) -> FloatArray:
    """Pass rate at `compute` (any shape, >= 0), same shape (Eq. 1)."""
    return np.asarray(law.R0 + (law.A - law.R0) * gain_share(compute, law.B, law.C_mid))


def compute_at(pass_rate: ArrayLike, law: Law) -> FloatArray:
    """Compute at which Eq. 1 reaches `pass_rate`: 0 at or below R0, inf at or above A."""
    rate = np.asarray(pass_rate, dtype=np.float64)
    inside = (rate > law.R0) & (rate < law.A)
    share = np.where(inside, (rate - law.R0) / np.where(law.A == law.R0, 1.0, law.A - law.R0), 0.5)
    reached = law.C_mid * (share / (1 - share)) ** (1 / law.B)
    return np.where(inside, reached, np.where(rate <= law.R0, 0.0, np.inf))


def linearise(pass_rate: ArrayLike, law: Law) -> FloatArray:
    """F(R) = C_mid^B / ((A - R0) / (R - R0) - 1) = C^B on the curve (Fig. 7); NaN outside (R0, A)."""
    rate = np.asarray(pass_rate, dtype=np.float64)
    inside = (rate > law.R0) & (rate < law.A)
    gain = np.where(inside, rate - law.R0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = law.C_mid**law.B / ((law.A - law.R0) / gain - 1)
    return np.where(inside, value, np.nan)
