"""Nodes between the nodes of a march: the log density by cubic pieces, everything else by straight ones.

The march takes steps of half a standard deviation and more. Straight lines between its densities put too much
mass into the tails (intervals 3.5% too wide on a Gaussian at steps of a third); the log density is close to a
parabola there, which cubic pieces follow.
"""

from __future__ import annotations

import numpy as np

from scalerl.curve.series import FloatArray

PIECES = 4  # between two neighbouring nodes


def between(values: FloatArray, axis: int = -1) -> FloatArray:
    """Values [..., J, ...] at the nodes along `axis`, with PIECES - 1 more between each pair, on lines:
    [..., PIECES (J - 1) + 1, ...]."""
    values = np.moveaxis(values, axis, -1)
    t = np.arange(PIECES) / PIECES
    inner = values[..., :-1, None] + t * np.diff(values, axis=-1)[..., None]
    inner = inner.reshape(*values.shape[:-1], -1)
    return np.moveaxis(np.concatenate([inner, values[..., -1:]], -1), -1, axis)


def between_cubic(at: FloatArray, values: FloatArray) -> FloatArray:
    """The same for a function `values` [..., J] of `at` [..., J] (broadcastable) by cubic pieces.

    Slopes from three neighbours, limited to three times the flatter secant beside them, so that no piece
    swings far beyond its neighbours. Nodes may coincide (A at its bound).
    """
    h = np.diff(at, axis=-1)
    secant = np.diff(values, axis=-1) / np.where(h > 0, h, np.inf)
    h0, h1, d0, d1 = h[..., :-1], h[..., 1:], secant[..., :-1], secant[..., 1:]
    total = h0 + h1
    middle = (h1 * d0 + h0 * d1) / np.where(total > 0, total, 1.0)
    most = 3 * np.minimum(np.abs(d0), np.abs(d1))
    middle = np.where(h1 > 0, np.where(h0 > 0, np.clip(middle, -most, most), d1), d0)
    slope = np.concatenate([secant[..., :1], middle, secant[..., -1:]], -1)
    t = np.arange(PIECES) / PIECES
    left, right = values[..., :-1, None], values[..., 1:, None]
    first, last = (slope[..., :-1] * h)[..., None], (slope[..., 1:] * h)[..., None]
    s = 1 - t
    inner = left * (1 + 2 * t) * s * s + right * t * t * (3 - 2 * t) + first * t * s * s - last * t * t * s
    return np.concatenate([inner.reshape(*values.shape[:-1], -1), values[..., -1:]], -1)
