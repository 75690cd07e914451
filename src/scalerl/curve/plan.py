"""Planning an evaluation: how many prompts x samples, how often and until when, for a wanted margin of A."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scalerl.curve.identify import ar1_noise
from scalerl.curve.integrate import posterior
from scalerl.curve.noise import Noise
from scalerl.curve.sigmoid import Law, gain_share, sigmoid
from scalerl.curve.varpro import Design, least_squares
from scalerl.errors import UserError

PROMPTS_AND_SAMPLES = ((128, 4), (256, 4), (256, 8), (512, 8), (512, 16), (1000, 16), (2000, 16))
EVALUATIONS = (16, 24, 40, 60, 80)
Z90 = 1.645
SHARE = 0.8


@dataclass(frozen=True)
class Plan:
    """One way to evaluate: prompts x samples at `evaluations` points up to `until` (compute), and what it
    gives.

    half_width: of the 90% interval of A, expected; completions: evaluation completions in all; share: of
    simulated runs whose interval of A is within the wanted margin (NaN where it wasn't simulated).
    """

    prompts: int
    samples: int
    evaluations: int
    until: float
    noise_sd: float
    half_width: float
    completions: int
    share: float = float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers with stable names."""
        return asdict(self)


def plan_eval(
    law: Law,
    margin: float = 0.02,
    *,
    until: float | None = None,
    start: float | None = None,
    training_sd: float = 0.003,
    correlation: float = 0.3,
    pass_spread: float = 0.5,
    curves: int = 60,
    seed: int = 0,
) -> list[Plan]:
    """Plans that should reach the margin, cheapest in completions first; empty when none does.

    The linearised fit sorts out the candidates; it is optimistic where A is barely known, so the cheapest
    ones are simulated until one is within the margin in 80% of runs: that one comes first, those after it
    cost more.

    law: the guessed curve. until: the budget (None: 4, 8 and 16 C_mid are tried). start: first evaluation
    after step 0 (default a twentieth of the budget). training_sd, correlation: noise beyond the
    evaluation's own. pass_spread: share of p (1 - p) that is spread between prompts and so doesn't vary
    between evaluations of the same prompts (0: the binomial bound).
    """
    if not 0 < margin < 0.5:
        raise UserError(f"margin {margin:g}: give a half-width of A between 0 and 0.5, for example 0.02")
    if not 0 <= law.R0 < law.A <= 1 or law.B <= 0 or law.C_mid <= 0:
        raise UserError("the guessed curve needs 0 <= R0 < A <= 1, B > 0 and C_mid > 0")
    budgets = [until] if until is not None else [k * law.C_mid for k in (4, 8, 16)]
    plans = []
    for budget in budgets:
        for evaluations in EVALUATIONS:
            compute = np.linspace(start or budget / 20, budget, evaluations)
            for prompts, samples in PROMPTS_AND_SAMPLES:
                noise = evaluation_sd(law, compute, prompts, samples, training_sd, pass_spread)
                half = Z90 * ceiling_sd(law, compute, noise, correlation)
                if half <= margin:
                    count = prompts * samples * (evaluations + 1)
                    plans.append(Plan(prompts, samples, evaluations, budget, noise, half, count))
    plans.sort(key=lambda plan: (plan.completions, plan.until))
    for at, plan in enumerate(plans):
        checked = _checked(plan, law, margin, start, correlation, curves, seed)
        if checked.share >= SHARE:
            return [checked, *plans[at + 1 :]]
    return []


def evaluation_sd(
    law: Law, compute: Any, prompts: int, samples: int, training_sd: float, pass_spread: float
) -> float:
    """Noise sd of an evaluation: sampling at fixed prompts, p (1 - p) (1 - spread) / (prompts x samples),
    and training."""
    rate = sigmoid(compute, law)
    sampling = float(np.mean(rate * (1 - rate))) * (1 - pass_spread) / (prompts * samples)
    return float(np.sqrt(sampling + training_sd**2))


def ceiling_sd(law: Law, compute: Any, noise_sd: float, correlation: float) -> float:
    """Standard deviation of A from the linearised fit with R0 known, correlated noise inflated by (1 + rho)
    / (1 - rho)."""
    g = gain_share(compute, law.B, law.C_mid)
    slope = (law.A - law.R0) * g * (1 - g)
    columns = np.stack([g, slope * np.log(compute / law.C_mid) * law.B, -slope * law.B])
    information = columns @ columns.T
    variance = np.linalg.inv(information + 1e-15 * np.eye(3))[0, 0]
    return float(noise_sd * np.sqrt(variance * (1 + correlation) / (1 - correlation)))


def _checked(
    plan: Plan, law: Law, margin: float, start: float | None, correlation: float, curves: int, seed: int
) -> Plan:
    """The plan with the share of simulated runs whose 90% interval of A is within the margin."""
    compute = np.linspace(start or plan.until / 20, plan.until, plan.evaluations)
    noise = ar1_noise(np.random.default_rng(seed), (curves, len(compute)), plan.noise_sd, correlation)
    y = np.clip(sigmoid(compute, law) + noise, 0.0, 1.0)
    design = Design(np.log(compute), np.ones(len(compute)), True)
    solution = least_squares(design, y, np.full(curves, law.R0))
    post = posterior(compute, design, y, solution, Noise("ar1"))
    half = np.maximum(post.quantile_A(0.95) - solution.A, solution.A - post.quantile_A(0.05))
    return Plan(**(asdict(plan) | {"share": float(np.mean(half <= margin))}))
