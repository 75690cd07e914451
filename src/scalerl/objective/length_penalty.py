"""DAPO's soft length penalty (Eq. 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def length_penalty(
    lengths: npt.NDArray[np.int64], passed: npt.NDArray[np.bool_], *, max_tokens: int, cache_tokens: int
) -> npt.NDArray[np.float64]:
    """Return what is added to each reward [N]: clip((L_max - |y|) / L_cache - 1, -1, 0) for correct traces,
    else 0.

    `lengths` counts sampled tokens. The penalty begins at L_max - L_cache and reaches -1 at L_max.
    """
    penalty = np.clip((max_tokens - lengths) / cache_tokens - 1.0, -1.0, 0.0)
    return np.where(passed, penalty, 0.0)
