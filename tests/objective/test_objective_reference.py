"""Each loss x aggregation x normalisation x batch against plain NumPy float64, value and gradient.

The reference is written from the formulas of method.md, section 2, with loops over prompts, completions and
tokens; it shares no code with the package.
"""

import itertools

import numpy as np
import pytest
from hand_made_batch import LAYOUT, MAX_TOKENS, flat_logp, groups, recipe

from scalerl.loop.objective import Objective

LOSSES = {
    "cispo": ["loss=cispo", "loss.eps_max=1.5"],
    "cispo_infinite": ["loss=cispo", "loss.eps_max=.inf"],
    "grpo": ["loss=clip", "loss.eps_low=0.2", "loss.eps_high=0.2"],
    "dapo": ["loss=clip", "loss.eps_low=0.2", "loss.eps_high=0.26"],
    "gspo": ["loss=gspo", "loss.eps_low=0.1", "loss.eps_high=0.3"],
}


def reference_batch(batch, penalty):
    """The kept prompts' survivors, {group: [(sample, length, reward)]}, and the dropped ones' likewise."""
    kept, dropped = {}, {}
    for group, rows in LAYOUT.items():
        alive = [
            (sample, length, outcome)
            for sample, (length, outcome, finish, _) in enumerate(rows)
            if finish != "truncated" and outcome is not None
        ]
        if len(alive) < 2:
            continue
        outcomes = {outcome for _, _, outcome in alive}
        rewarded = []
        for sample, length, outcome in alive:
            reward = 1.0 if outcome else -1.0
            if penalty and outcome:  # Eq. 9 with L_max 16, L_cache 2
                reward += min(0.0, max(-1.0, (16 - length) / 2 - 1))
            rewarded.append((sample, length, reward))
        drop = batch != "all" and len(outcomes) == 1
        (dropped if drop else kept)[group] = rewarded
    return kept, dropped


def reference_advantages(kept, dropped, normalisation, over):
    centred = {
        (group, sample): reward - np.mean([r for _, _, r in rows])
        for group, rows in {**kept, **dropped}.items()
        for sample, _, reward in rows
    }
    if normalisation == "none":
        return centred
    if normalisation == "prompt":
        stds = {
            group: np.sqrt(np.mean([centred[group, s] ** 2 for s, _, _ in rows]))
            for group, rows in kept.items()
        }
        return {(g, s): centred[g, s] / (stds[g] + 1e-6) for g, rows in kept.items() for s, _, _ in rows}
    counted = [a for (group, _), a in centred.items() if over == "all" or group in kept]
    return {key: a / (np.std(counted) + 1e-6) for key, a in centred.items()}


def reference_token(loss, logp, behaviour, t, A, length):
    """Loss of token t and its gradient in the completion's log-probs, as they enter the sum over tokens."""
    rho = np.exp(logp - behaviour)
    gradient = np.zeros(length)
    if loss.startswith("cispo"):
        bounded = min(rho[t], 1.5 if loss == "cispo" else np.inf)
        gradient[t] = -bounded * A
        return -bounded * A * logp[t], gradient
    if loss == "gspo":
        low, high, r = 0.9, 1.3, np.prod(rho ** (1 / length))
    else:
        low, high, r = 0.8, 1.2 if loss == "grpo" else 1.26, rho[t]
    if min(max(r, low), high) * A < r * A:
        return -min(max(r, low), high) * A, gradient
    if loss == "gspo":
        gradient[:] = -r * A / length
    else:
        gradient[t] = -r * A
    return -r * A, gradient


def reference_loss(loss, aggregation, advantages, kept, trainer, behaviour):
    """Value, and gradient by completion, summed as the aggregation's sentence says."""
    N, P = sum(map(len, kept.values())), len(kept)
    all_tokens = sum(length for rows in kept.values() for _, length, _ in rows)
    value, gradients = 0.0, {}
    for group, rows in kept.items():
        prompt_tokens = sum(length for _, length, _ in rows)
        for sample, length, _ in rows:
            key = group, sample
            gradients[key] = np.zeros(length)
            for t in range(length):
                token, gradient = reference_token(
                    loss, trainer[key], behaviour[key], t, advantages[key], length
                )
                divisor = {
                    "sample": length * N,
                    "prompt": prompt_tokens * P,
                    "token": all_tokens,
                    "constant": N * MAX_TOKENS,
                }[aggregation]
                value += token / divisor
                gradients[key] += gradient / divisor
    return value, gradients


CASES = list(
    itertools.product(
        LOSSES,
        ("sample", "prompt", "token", "constant"),
        ("prompt", "batch", "none"),
        ("all", "zero_variance_dropped"),
    )
)


@pytest.mark.parametrize("penalty", [False, True])
@pytest.mark.parametrize(("loss", "aggregation", "normalisation", "batch"), CASES)
def test_value_and_gradient_equal_the_reference(loss, aggregation, normalisation, batch, penalty):
    for over in ("kept", "all") if normalisation == "batch" else ("kept",):
        overrides = [
            *LOSSES[loss],
            f"aggregation={aggregation}",
            f"advantage={normalisation}",
            f"advantage.over={over}",
            f"batch={batch}",
        ]
        if penalty:
            overrides += ["length_control=length_penalty", "length_control.cache_share=0.125"]
        objective = Objective.from_recipe(recipe(*overrides))
        made, trainer = groups()
        prepared = objective.prepare(made)
        indices = range(len(prepared.completions))
        logp = flat_logp(prepared, trainer, indices)
        value = objective.token_loss_sum(prepared, indices, logp)
        value.backward()

        kept, dropped = reference_batch(batch, penalty)
        behaviour = {
            (c.group, c.sample): c.logprobs[c.sampled].astype(np.float64) for g in made for c in g.completions
        }
        advantages = reference_advantages(kept, dropped, normalisation, over)
        wanted, gradients = reference_loss(loss, aggregation, advantages, kept, trainer, behaviour)
        keys = [(c.group, c.sample) for c in prepared.completions]
        assert keys == [(group, sample) for group, rows in kept.items() for sample, _, _ in rows]
        np.testing.assert_allclose(value.item(), wanted, rtol=1e-6, atol=1e-12)
        wanted_gradient = np.concatenate([gradients[key] for key in keys])
        np.testing.assert_allclose(logp.grad.numpy(), wanted_gradient, rtol=1e-6, atol=1e-12)
        assert np.abs(wanted_gradient).max() > 1e-4


def test_the_hand_made_batch_clips_on_both_sides_and_leaves_some_free():
    """The reference would prove little if no bound were ever reached."""
    made, trainer = groups()
    for overrides in (LOSSES["dapo"], LOSSES["gspo"], LOSSES["cispo"]):
        objective = Objective.from_recipe(recipe(*overrides))
        prepared = objective.prepare(made)
        indices = range(len(prepared.completions))
        logp = flat_logp(prepared, trainer, indices)
        step = objective.step_metrics(prepared, indices, logp, logp.detach())
        assert 0.02 < step["clip_high_share"] < 0.7
        assert overrides is LOSSES["cispo"] or 0.02 < step["clip_low_share"] < 0.7


def test_advantages_by_hand():
    made, _ = groups()
    prepared = Objective.from_recipe(recipe("advantage=none", "batch=zero_variance_dropped")).prepare(made)
    # group 0: +1 -1 +1, mean 1/3; group 1 without the truncated one: +1 -1 -1, mean -1/3; group 3 without
    # the failed: 0
    np.testing.assert_allclose(prepared.advantage, [2 / 3, -4 / 3, 2 / 3, 4 / 3, -2 / 3, -2 / 3, -1, 1])
    assert prepared.prompt.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert prepared.lengths.tolist() == [3, 5, 9, 4, 15, 2, 2, 8]
    # squares: (4+16+4 + 16+4+4)/9 + 2 over 8 completions
    std = np.sqrt((48 / 9 + 2) / 8)
    batch = Objective.from_recipe(recipe("advantage=batch", "batch=zero_variance_dropped")).prepare(made)
    np.testing.assert_allclose(batch.advantage[0], 2 / 3 / (std + 1e-6))
    prompt = Objective.from_recipe(recipe("advantage=prompt", "batch=zero_variance_dropped")).prepare(made)
    np.testing.assert_allclose(prompt.advantage[1], -4 / 3 / (np.sqrt(8 / 9) + 1e-6))


def test_counts_by_hand():
    made, _ = groups()
    metrics = Objective.from_recipe(recipe("batch=zero_variance_dropped")).prepare(made).metrics
    assert metrics["prompts"] == 5
    assert metrics["kept_prompts"] == 3
    assert metrics["zero_variance_prompts"] == 1
    assert metrics["too_few_survivors_prompts"] == 1
    assert metrics["completions"] == 14
    assert metrics["truncated"] == 2
    assert metrics["interrupted"] == 1
    assert metrics["verifier_failed"] == 1
    assert metrics["max_length"] == 16
    np.testing.assert_allclose(metrics["pass_rate"], 7 / 11)
    np.testing.assert_allclose(metrics["reward"], (1 + -1 + 2 + 0) / 10)
    np.testing.assert_allclose(metrics["mean_length"], 109 / 14)
