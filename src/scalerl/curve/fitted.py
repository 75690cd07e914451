"""A fitted law: its parameters, intervals, predictions and what it doesn't know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalerl.curve.integrate import R0Prior, posterior
from scalerl.curve.mixture import Posterior
from scalerl.curve.noise import Noise, lag_correlation
from scalerl.curve.series import FloatArray, Series
from scalerl.curve.shape import Shape
from scalerl.curve.sigmoid import Law, compute_at, sigmoid
from scalerl.curve.varpro import LOG_B_RANGE, Design, Solution
from scalerl.curve.verdict import Identified, Judgement, judge
from scalerl.curve.weights import Weights
from scalerl.errors import UserError

R0Mode = Literal["measured", "given", "free"]


class Interval(NamedTuple):
    """An interval at `level`: lower, upper."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """R at `compute` [k]: mean (Eq. 1 at the estimate), lower and upper ends of the interval at `level`,
    each [k].

    The interval is for the curve itself; one more evaluation scatters about it with the evaluation's own
    noise.
    """

    compute: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    level: float


class Reach(NamedTuple):
    """Compute at which a pass rate is reached: estimate (inf: never), interval, probability that the ceiling
    allows it."""

    pass_rate: float
    compute: float
    lower: float
    upper: float
    probability: float


@dataclass(frozen=True)
class FitData:
    """What the intervals need besides the points: weights, R0's value and standard error, noise, prior
    penalty."""

    weights: Weights
    r0_stderr: float | None
    r0_value: float
    noise: Noise
    penalty: tuple[float, float, float, float, float] | None


@dataclass(frozen=True, eq=False)
class Fit:
    """Eq. 1 fitted to the points of a window.

    law: A, B, C_mid, R0 (NaN where nothing could be fitted); sse: weighted sum of squares; series: all
    points, used: those of the window; window: its ends in compute; r0_mode: 'measured', 'given' or 'free';
    notes: remarks for people.
    """

    law: Law
    sse: float
    series: Series
    used: Series
    window: tuple[float, float]
    r0_mode: R0Mode
    method: str
    shape: Shape
    notes: tuple[str, ...]
    data: FitData

    @property
    def A(self) -> float:
        """The ceiling."""
        return self.law.A

    @property
    def B(self) -> float:
        """The scaling exponent."""
        return self.law.B

    @property
    def C_mid(self) -> float:
        """Compute at which half of the gain is reached, in the unit of the series."""
        return self.law.C_mid

    @property
    def R0(self) -> float:
        """The pass rate before RL."""
        return self.law.R0

    @property
    def fitted(self) -> bool:
        """False when the data allowed no fit at all: see `verdict` and `why`."""
        return bool(np.isfinite(self.law.A))

    @cached_property
    def sigma(self) -> float:
        """Noise sd of a point of weight 1, from the residuals."""
        parameters = 4 if self.r0_mode == "free" else 3
        own = float(np.sqrt(self.sse / max(len(self.used) - parameters, 1)))
        return max(own, self.data.weights.sigma_floor)

    @cached_property
    def residuals(self) -> FloatArray:
        """Observed minus fitted pass rate at the used points [n]."""
        return self.used.pass_rate - sigmoid(self.used.compute, self.law)

    @cached_property
    def correlation(self) -> float:
        """Lag-1 correlation of the residuals, corrected for the fitted parameters (a description, not used
        as known)."""
        return float(lag_correlation(self.residuals[None], 3)[0])

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior of the law (mixture.Posterior of a batch of one)."""
        if not self.fitted:
            raise UserError(f"{self.series.name}: no interval without a fit: {self.shape.why}")
        x, y = np.log(self.used.compute), self.used.pass_rate[None]
        known = self.data.r0_stderr == 0
        design = Design(x, self.data.weights.weight, known, self.data.penalty)
        solution = Solution(
            *(np.array([value]) for value in (self.A, self.R0, np.log(self.B), np.log(self.C_mid), self.sse))
        )
        measured = None
        if self.data.r0_stderr:
            measured = R0Prior(np.array([self.data.r0_value]), np.array([self.data.r0_stderr]))
        return posterior(self.used.compute, design, y, solution, self.data.noise, measured)

    def interval(self, name: str, level: float = 0.9) -> Interval:
        """Interval of 'A', 'B', 'C_mid' or 'R0' at `level`: equal tails of the posterior, stretched to hold
        the estimate."""
        _check_level(level)
        if not self.fitted:
            return Interval(np.nan, np.nan)
        low, high = (1 - level) / 2, (1 + level) / 2
        post = self.posterior
        if name == "A":
            ends = [float(post.quantile_A(q)[0]) for q in (low, high)]
        elif name == "B":
            ends = [float(post.quantile(*post.B(), q)[0]) for q in (low, high)]
        elif name == "C_mid":
            ends = [_compute_of(post.quantile(*post.log_mid(), q)[0]) for q in (low, high)]
        elif name == "R0":
            ends = self._r0_ends(low, high)
        else:
            raise UserError(f"interval of {name!r}: use 'A', 'B', 'C_mid' or 'R0'")
        estimate = getattr(self.law, name)
        return Interval(min(ends[0], estimate), max(ends[1], estimate))

    def _r0_ends(self, low: float, high: float) -> list[float]:
        post = self.posterior
        if post.R0.shape[1] == 1:
            return [self.R0, self.R0]
        centre = np.broadcast_to(post.R0[..., None], post.A.shape)
        return [float(np.clip(post.quantile(centre, np.zeros_like(centre), q)[0], 0, 1)) for q in (low, high)]

    def predict(self, compute: ArrayLike, level: float = 0.9) -> Prediction:
        """R at `compute` (a number or [k], >= 0) with its interval at `level`."""
        _check_level(level)
        at = np.atleast_1d(np.asarray(compute, dtype=np.float64))
        if (at < 0).any() or not np.isfinite(at).all():
            raise UserError("predict: compute must be finite and >= 0")
        if not self.fitted:
            nan = np.full(len(at), np.nan)
            return Prediction(at, nan, nan, nan, level)
        mean = sigmoid(at, self.law)
        post = self.posterior
        ends = np.empty((2, len(at)))
        for i, c in enumerate(at):
            if c == 0:
                ends[:, i] = self.interval("R0", level)
                continue
            centre, sd = post.rate_at(float(np.log(c)))
            ends[:, i] = [post.quantile(centre, sd, q)[0] for q in ((1 - level) / 2, (1 + level) / 2)]
        lower, upper = np.minimum(np.clip(ends[0], 0, 1), mean), np.maximum(np.clip(ends[1], 0, 1), mean)
        return Prediction(at, mean, lower, upper, level)

    def reach(self, pass_rate: float, level: float = 0.9) -> Reach:
        """Compute at which the curve reaches `pass_rate`; inf: never, with the probability that the ceiling
        allows it."""
        _check_level(level)
        if not 0 < pass_rate < 1:
            raise UserError(f"reach: pass rate {pass_rate:g} isn't in (0, 1)")
        if not self.fitted:
            return Reach(pass_rate, np.nan, np.nan, np.nan, np.nan)
        post = self.posterior
        estimate = float(compute_at(pass_rate, self.law))
        centre, sd = post.log_compute_at(pass_rate)
        ends = [_compute_of(post.quantile(centre, sd, q)[0]) for q in ((1 - level) / 2, (1 + level) / 2)]
        probability = 1 - float(post.cdf_A(np.array([pass_rate])).mean())
        return Reach(pass_rate, estimate, min(ends[0], estimate), max(ends[1], estimate), probability)

    @cached_property
    def judgement(self) -> Judgement:
        """Whether the ceiling is identified, the verdict and its sentence."""
        ends = self.interval("A", 0.9)
        at_bound = self.fitted and (
            np.log(self.B) > LOG_B_RANGE[1] - 1e-6 or np.log(self.B) < LOG_B_RANGE[0] + 1e-6
        )
        return judge(self.shape, self.law, ends, self.window, self.series.unit, bool(at_bound))

    @property
    def identified(self) -> Identified:
        """'yes', 'weak' or 'no': whether the 90% interval of A lies within +-0.02, +-0.05 or neither."""
        return self.judgement.identified

    @property
    def verdict(self) -> str:
        """'ok', or what is wrong: bound, no-rise, collapse, too-few, all-zero, all-equal, beyond-data."""
        return self.judgement.verdict

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        return self.judgement.why

    def to_dict(self, level: float = 0.9) -> dict[str, Any]:
        """Everything as plain numbers with stable names (what `scalerl fit --json` prints)."""
        out: dict[str, Any] = {
            "name": self.series.name,
            "axis": self.series.axis,
            "label": self.series.label,
            "A": self.A,
            "B": self.B,
            "C_mid": self.C_mid,
            "R0": self.R0,
            "r0_mode": self.r0_mode,
            "window": list(self.window),
            "points": len(self.used),
            "method": self.method,
            "prior": "none" if self.data.penalty is None else "weak",
            "noise": self.data.noise.kind,
            "sigma": self.sigma if self.fitted else np.nan,
            "correlation": self.correlation if self.fitted else np.nan,
            "sse": self.sse,
            "level": level,
            "intervals": {key: list(self.interval(key, level)) for key in ("A", "B", "C_mid", "R0")},
            "identified": self.identified,
            "verdict": self.verdict,
            "why": self.why,
            "notes": list(self.notes),
        }
        return out


def _compute_of(log_compute: float) -> float:
    """Compute from its log; beyond what a float holds it is as good as never."""
    with np.errstate(over="ignore"):
        return float(np.exp(log_compute))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise UserError(f"level {level:g}: give a share between 0 and 1, for example 0.9")
