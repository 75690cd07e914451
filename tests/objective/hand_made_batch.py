"""A small batch made by hand: unequal lengths, one interrupted, one truncated, zero variance, failures."""

import numpy as np
import torch

from scalerl.generate.protocol import Completion
from scalerl.loop.scored import ScoredGroup
from scalerl.recipe import Recipe, apply_overrides, named

MAX_TOKENS = 16  # 12 of thinking, 4 of answer
# group -> (sampled tokens, verifier's outcome, finish, injected tokens) for each completion
LAYOUT = {
    0: [(3, True, "stop", 0), (5, False, "stop", 2), (9, True, "stop", 0)],  # the second is interrupted
    1: [(4, True, "stop", 0), (16, None, "truncated", 0), (15, False, "stop", 0), (2, False, "stop", 0)],
    2: [(7, True, "stop", 0), (14, True, "stop", 0)],  # zero variance
    3: [(2, False, "stop", 0), (3, None, "stop", 0), (8, True, "stop", 0)],  # the verifier failed once
    4: [(5, True, "stop", 0), (16, False, "truncated", 0)],  # one survivor only
}


def groups(ratio_spread=1.2, seed=0):
    """The batch, and the trainer's log-probs of each completion's sampled tokens by (group, sample)."""
    rng = np.random.default_rng(seed)
    made, trainer = [], {}
    for group, rows in LAYOUT.items():
        completions = []
        for sample, (length, _, finish, injected) in enumerate(rows):
            sampled = np.array([True] * (length - 1) + [False] * injected + [True])
            logprobs = np.where(sampled, -rng.exponential(1.0, sampled.size), 0.0).astype(np.float32)
            trainer[group, sample] = logprobs[sampled].astype(np.float64) + ratio_spread * rng.normal(
                size=length
            )
            completions.append(
                Completion(
                    group=group,
                    prompt_id=f"p{group}",
                    sample=sample,
                    prompt=(1, 2),
                    tokens=np.arange(sampled.size),
                    logprobs=logprobs,
                    versions=np.zeros(sampled.size, dtype=np.int64),
                    sampled=sampled,
                    finish=finish,
                    interrupted=injected > 0,
                )
            )
        outcomes = [outcome for _, outcome, _, _ in rows]
        rewards = [None if outcome is None else (1.0 if outcome else -1.0) for outcome in outcomes]
        made.append(ScoredGroup(group, f"p{group}", completions, outcomes, rewards))
    return made, trainer


def recipe(*overrides, name="base") -> Recipe:
    small = named(name).scaled_to(
        prompts_per_step=5, generations_per_prompt=4, max_thinking_tokens=12, max_answer_tokens=4
    )
    return apply_overrides(small, overrides)


def flat_logp(prepared, trainer, indices):
    """The trainer's log-probs laid out flat for some completions, differentiable float64."""
    rows = [trainer[c.group, c.sample] for c in (prepared.completions[i] for i in indices)]
    return torch.tensor(np.concatenate([*rows, np.zeros(0)]), dtype=torch.float64, requires_grad=True)
