"""Who counts: truncated and verifier-failed completions leave first, then prompts are judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MIN_SURVIVORS = 2
"""A group with fewer survivors has no mean to compare with: its prompt is dropped."""


def survivors(truncated: Sequence[bool], passed: Sequence[bool | None]) -> npt.NDArray[np.bool_]:
    """Return which of a group's G completions count: not truncated, and judged (`passed` isn't None)."""
    return np.array(
        [not cut and verdict is not None for cut, verdict in zip(truncated, passed, strict=True)], dtype=bool
    )


def is_zero_variance(passed: Sequence[bool]) -> bool:
    """Return whether a group's survivors all have one verifier outcome (judged before any length penalty)."""
    return len(set(passed)) < 2
