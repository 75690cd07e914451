"""What a trainer step reports about its ratios, before any truncation."""

from __future__ import annotations

import torch
from torch import Tensor

from scalerl.objective.kl import kl_estimate

RATIO_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
"""Reported as ratio_q01 ... ratio_q99."""


@torch.no_grad()
def ratio_diagnostics(logp: Tensor, behaviour_logp: Tensor) -> dict[str, float]:
    """Return statistics of rho over T sampled tokens; empty for none.

    ratio_min, ratio_mean, ratio_max and quantiles; kl_generator_trainer: k3 estimate of KL(pi_gen ||
    pi_train) in nats a token; ess_share: effective sample size (sum rho)^2 / sum rho^2 over T.
    """
    if logp.numel() == 0:
        return {}
    logp, behaviour_logp = logp.double().cpu(), behaviour_logp.double().cpu()
    log_ratio = logp - behaviour_logp
    ratio = log_ratio.exp()
    ordered = ratio.sort().values
    quantiles = {f"ratio_q{round(100 * q):02d}": _quantile(ordered, q) for q in RATIO_QUANTILES}
    # relative to the largest ratio, so that a huge one doesn't overflow the squares
    relative = (log_ratio - log_ratio.max()).exp()
    return {
        "ratio_min": float(ordered[0]),
        "ratio_mean": float(ratio.mean()),
        "ratio_max": float(ordered[-1]),
        **quantiles,
        "kl_generator_trainer": float(kl_estimate(behaviour_logp, logp, "k3").mean()),
        "ess_share": float(relative.sum().square() / relative.square().sum() / len(relative)),
    }


def _quantile(ordered: Tensor, q: float) -> float:
    """Return a quantile of sorted values, linear between neighbours (torch.quantile stops at 16M values)."""
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (position - low) * (ordered[high] - ordered[low]))
