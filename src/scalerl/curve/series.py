"""One curve as numbers: pass rate against compute, with the evaluation noise of every point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalerl.errors import UserError

FloatArray = NDArray[np.float64]
Scale = Literal["fraction", "percent", "pm1"]
StderrKind = Literal["per-prompt", "binomial"]

UNITS = {
    "device_hours": "device-hours",
    "flops": "FLOPs",
    "tokens_trained": "trained tokens",
    "tokens_generated": "generated tokens",
    "steps": "steps",
}


@dataclass(frozen=True, eq=False)
class Series:
    """Pass rate against compute, cleaned: what every function of `scalerl.curve` works on.

    compute: float64 [n], strictly increasing, > 0 except maybe the first (0: the evaluation before RL).
    pass_rate: float64 [n], in [0, 1]. stderr: float64 [n] or None: standard deviation of the evaluation noise
    of each point, in pass rate. stderr_kind: 'per-prompt' (sampling part at fixed prompts, from counts) or
    'binomial' (an upper bound). r0, r0_stderr: pass rate before RL and its standard error, where it was
    measured. device_kind: what device time was spent on, where it is known.
    """

    compute: FloatArray
    pass_rate: FloatArray
    stderr: FloatArray | None = None
    axis: str = "compute"
    name: str = "run"
    set: str = "held_out"
    held_out_hash: str | None = None
    label: str = "held-out pass rate"
    stderr_kind: StderrKind | None = None
    r0: float | None = None
    r0_stderr: float | None = None
    device_kind: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "compute", _column("compute", self.compute, self.name))
        object.__setattr__(self, "pass_rate", _column("pass_rate", self.pass_rate, self.name))
        if self.stderr is not None:
            object.__setattr__(self, "stderr", _column("stderr", self.stderr, self.name))
        _check(self)

    def __len__(self) -> int:
        return len(self.compute)

    @property
    def unit(self) -> str:
        """The compute axis in words ('device-hours', 'FLOPs', ...)."""
        return UNITS.get(self.axis, self.axis)

    def between(self, low: float | None = None, high: float | None = None) -> Series:
        """The points with low <= compute <= high; r0 is kept."""
        lo = -np.inf if low is None else low
        hi = np.inf if high is None else high
        return self.take((self.compute >= lo) & (self.compute <= hi))

    def take(self, keep: NDArray[np.bool_]) -> Series:
        """The points where `keep` (bool [n]) holds; everything else stays."""
        return replace(
            self,
            compute=self.compute[keep],
            pass_rate=self.pass_rate[keep],
            stderr=None if self.stderr is None else self.stderr[keep],
        )

    @classmethod
    def of(
        cls,
        compute: ArrayLike,
        pass_rate: ArrayLike,
        *,
        stderr: ArrayLike | None = None,
        scale: Scale | None = None,
        **about: Any,
    ) -> Series:
        """Make a series from raw columns in any order.

        scale: 'fraction' (0..1, the default), 'percent' (0..100) or 'pm1' (rewards r in -1..1: (r + 1) / 2).
        Values outside [0, 1] without a scale raise UserError that names the flag: they are never guessed.
        Evaluations at compute 0 become r0 (their mean) and stay as one first point.
        """
        name = str(about.get("name", "run"))
        c = _column("compute", compute, name)
        r = to_fraction(_column("pass_rate", pass_rate, name), scale, name)
        s = None if stderr is None else _column("stderr", stderr, name) * _stderr_factor(scale)
        if len(c) != len(r) or (s is not None and len(s) != len(c)):
            raise UserError(
                f"{name}: compute has {len(c)} values and pass_rate {len(r)}; give one each per evaluation"
            )
        order = np.argsort(c, kind="stable")
        c, r, s = c[order], r[order], None if s is None else s[order]
        first = c == 0
        if first.any():
            about.setdefault("r0", float(r[first].mean()))
            if s is not None:
                about.setdefault("r0_stderr", float(np.sqrt(np.sum(s[first] ** 2))) / int(first.sum()))
            keep = ~first
            c = np.concatenate([[0.0], c[keep]])
            r = np.concatenate([[r[first].mean()], r[keep]])
            if s is not None:
                s = np.concatenate([[float(np.sqrt(np.sum(s[first] ** 2))) / int(first.sum())], s[keep]])
        return cls(compute=c, pass_rate=r, stderr=s, **about)


def to_fraction(values: FloatArray, scale: Scale | None, name: str = "run") -> FloatArray:
    """Map values [n] to fractions in [0, 1] by the named scale; UserError when they don't fit it."""
    if not np.isfinite(values).all():
        return values  # the series itself says which one
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    if scale == "percent":
        if low < 0 or high > 100:
            raise UserError(f"{name}: pass_rate {low:g}..{high:g} isn't in percent (0..100)")
        return values / 100.0
    if scale == "pm1":
        if low < -1 or high > 1:
            raise UserError(f"{name}: pass_rate {low:g}..{high:g} isn't a reward in [-1, 1]")
        return (values + 1.0) / 2.0
    if scale not in (None, "fraction"):
        raise UserError(f"scale {scale!r} isn't known; use 'fraction', 'percent' or 'pm1'")
    if low >= 0 and high <= 1:
        return values
    if low >= 0 and high <= 100:
        hint = "these look like percentages: say --scale percent"
    elif low >= -1 and high <= 1:
        hint = "these look like rewards in [-1, 1]: say --scale pm1"
    else:
        hint = "a pass rate lies in [0, 1] (or say --scale percent or --scale pm1)"
    raise UserError(f"{name}: pass_rate has values {low:g}..{high:g} outside [0, 1]; {hint}")


def _stderr_factor(scale: Scale | None) -> float:
    return {"percent": 0.01, "pm1": 0.5}.get(scale or "fraction", 1.0)


def _column(field: str, values: ArrayLike, name: str) -> FloatArray:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name}: {field} holds something that isn't a number ({error})") from None
    if column.ndim != 1:
        raise UserError(f"{name}: {field} has {column.ndim} dimensions; give one number per evaluation")
    return column


def _check(series: Series) -> None:
    name = series.name
    for field in ("compute", "pass_rate", "stderr"):
        column = getattr(series, field)
        if column is None:
            continue
        if len(column) != len(series.compute):
            raise UserError(f"{name}: {field} has {len(column)} values, compute has {len(series.compute)}")
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise UserError(f"{name}: {field}[{bad[0]}] is {column[bad[0]]}; drop that evaluation")
    if (negative := np.flatnonzero(series.compute < 0)).size:
        raise UserError(
            f"{name}: compute[{negative[0]}] is {series.compute[negative[0]]:g}; compute can't be negative"
        )
    steps = np.diff(series.compute)
    if (steps == 0).any():
        at = series.compute[int(np.flatnonzero(steps == 0)[0])]
        raise UserError(f"{name}: two evaluations at compute {at:g}; keep one of them (or average them)")
    if (steps < 0).any():
        raise UserError(f"{name}: compute isn't increasing; use Series.of, which sorts")
    to_fraction(series.pass_rate, None, name)
    if series.stderr is not None and (series.stderr < 0).any():
        raise UserError(f"{name}: stderr has negative values")
    if series.r0 is not None and not 0 <= series.r0 <= 1:
        raise UserError(f"{name}: r0 is {series.r0:g}; a pass rate lies in [0, 1]")
    if series.r0_stderr is not None and not (np.isfinite(series.r0_stderr) and series.r0_stderr >= 0):
        raise UserError(f"{name}: r0_stderr is {series.r0_stderr:g}; a standard error is a number >= 0")
