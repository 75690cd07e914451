"""Estimators of KL(policy || other) from tokens sampled by the policy; r = pi_other / pi_policy."""

from __future__ import annotations

from typing import Literal

from torch import Tensor


def kl_estimate(logp: Tensor, other_logp: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """Return the estimate for each token [T].

    k1: -log r (unbiased, any sign; as a loss its gradient has mean 0 on-policy). k2: (log r)^2 / 2 (biased,
    as a loss it has the KL's gradient on-policy). k3: r - 1 - log r (unbiased, never negative; GRPO's).
    """
    log_r = other_logp - logp
    if estimator == "k1":
        return -log_r
    if estimator == "k2":
        return log_r.square() / 2
    return log_r.expm1() - log_r
