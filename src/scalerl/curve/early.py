"""Where the early phase ends: the first points that the law, fitted to the later ones, doesn't describe."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import f as f_distribution

from scalerl.curve.series import Series
from scalerl.curve.varpro import Design, least_squares

LARGEST_SHARE = 1 / 3  # of the window's points that may be skipped
LEVEL = 0.01


def end_of_early_phase(used: Series, r0: float | None, least: int) -> float:
    """Compute of the first point to keep.

    From the front: fit the points from k on; when the block that would be kept first lies off that curve by
    no more than the rest does (F test at 1%), the early phase ends at k. At most a third of the points is
    skipped.
    """
    n = len(used)
    block = max(3, n // 10)
    candidates = range(0, min(int(n * LARGEST_SHARE), n - max(2 * block, least + 2)) + 1)
    for k in candidates:
        x, y = np.log(used.compute[k:]), used.pass_rate[k:]
        design = Design(x[block:], np.ones(len(x) - block), r0 is not None)
        solution = least_squares(design, y[None, block:], np.array([r0 or 0.0]))
        g = expit(np.exp(solution.log_B[0]) * (x - solution.log_mid[0]))
        residual = y - solution.R0[0] - (solution.A[0] - solution.R0[0]) * g
        degrees = len(x) - block - 3
        if degrees < 1:
            break
        ratio = np.mean(residual[:block] ** 2) / max(np.sum(residual[block:] ** 2) / degrees, 1e-12)
        if ratio < 2 * f_distribution.ppf(1 - LEVEL, block, degrees):  # 2: the block is extrapolated to
            return float(used.compute[k])
    return float(used.compute[candidates[-1] if len(candidates) else 0])
