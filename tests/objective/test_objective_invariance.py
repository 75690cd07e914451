"""The gradient doesn't depend on micro-batches, order or layout; on-policy the losses agree."""

import numpy as np
import pytest
import torch
from hand_made_batch import flat_logp, groups, recipe
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.loop.objective import Objective
from scalerl.objective.tokens import TokenBatch, weighted_loss_sum
from scalerl.policy.token_logprobs import token_logprobs

LOSSES = {
    "cispo": ["loss=cispo", "loss.eps_max=1.5"],
    "clip": ["loss=clip"],
    "gspo": ["loss=gspo", "loss.eps_low=0.1", "loss.eps_high=0.3"],
    "kl": ["loss=clip", "kl=reference", "kl.coefficient=0.3"],
}
AGGREGATIONS = ("sample", "prompt", "token", "constant")


class TinyPolicy:
    """A differentiable policy in float64: features of (completion, position) -> hidden -> token log-probs."""

    def __init__(self):
        torch.manual_seed(3)
        self.inner = torch.randn(6, 8, dtype=torch.float64).mul_(0.4).requires_grad_()
        self.head = torch.randn(11, 8, dtype=torch.float64).mul_(0.4).requires_grad_()

    def logp(self, completion):
        """Log-probs of the completion's sampled tokens."""
        features = np.random.default_rng([completion.group, completion.sample]).normal(
            size=(completion.tokens.size, 6)
        )
        hidden = torch.tanh(torch.from_numpy(features) @ self.inner)
        targets = torch.from_numpy(completion.tokens % 11)
        sampled = torch.from_numpy(completion.sampled)
        return token_logprobs(hidden[sampled], self.head, targets[sampled], fp32_head=True, chunk_tokens=3)[0]

    def gradient(self):
        gradient = torch.cat([self.inner.grad.flatten(), self.head.grad.flatten()])
        self.inner.grad = self.head.grad = None
        return gradient


def reference_logp(prepared, indices):
    """Log-probs of a reference model: the policy's at other parameters."""
    other = TinyPolicy()
    with torch.no_grad():
        other.head.mul_(0.5)
        return torch.cat([other.logp(prepared.completions[i]) for i in indices])


def gradient_in_parts(objective, prepared, parts):
    policy = TinyPolicy()
    total = 0.0
    for part in parts:
        logp = torch.cat([policy.logp(prepared.completions[i]) for i in part])
        reference = reference_logp(prepared, part) if objective.needs_reference else None
        loss = objective.token_loss_sum(prepared, part, logp, reference)
        loss.backward()
        total += loss.item()
    return total, policy.gradient()


@settings(max_examples=30, deadline=None)
@given(
    loss=st.sampled_from(sorted(LOSSES)),
    aggregation=st.sampled_from(AGGREGATIONS),
    parts=st.sampled_from([1, 2, 5]),
    data=st.data(),
)
def test_micro_batches_and_order_leave_the_gradient_alone(loss, aggregation, parts, data):
    objective = Objective.from_recipe(recipe(*LOSSES[loss], f"aggregation={aggregation}", "advantage=batch"))
    made, _ = groups()
    prepared = objective.prepare(made)
    whole = list(range(len(prepared.completions)))
    order = data.draw(st.permutations(whole))
    cut = [order[start::parts] for start in range(parts)]
    value, gradient = gradient_in_parts(objective, prepared, [whole])
    cut_value, cut_gradient = gradient_in_parts(objective, prepared, cut)
    assert abs(cut_value - value) <= 1e-6 * abs(value)
    assert (cut_gradient - gradient).norm() <= 1e-6 * gradient.norm()
    assert gradient.norm() > 1e-4


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"kl"}))
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_order_of_groups_and_completions_leaves_the_gradient_alone(loss, aggregation):
    objective = Objective.from_recipe(
        recipe(*LOSSES[loss], f"aggregation={aggregation}", "batch=zero_variance_dropped")
    )
    made, _ = groups()
    value, gradient = gradient_in_parts(
        objective, prepared := objective.prepare(made), [range(len(prepared.weight))]
    )
    rng = np.random.default_rng(0)
    shuffled = []
    for i in rng.permutation(len(made)):
        group, order = made[i], rng.permutation(len(made[i].completions))
        columns = [[column[j] for j in order] for column in (group.completions, group.passed, group.reward)]
        shuffled.append(type(group)(group.group, group.prompt_id, *columns))
    again = objective.prepare(shuffled)
    other_value, other_gradient = gradient_in_parts(objective, again, [range(len(again.weight))])
    assert abs(other_value - value) <= 1e-6 * abs(value)
    assert (other_gradient - gradient).norm() <= 1e-6 * gradient.norm()


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"kl"}))
def test_padded_and_packed_layouts_agree(loss):
    """Injected tokens and padding hold nonsense (huge, NaN); it must reach neither value nor gradient."""
    objective = Objective.from_recipe(recipe(*LOSSES[loss], "aggregation=prompt"))
    made, _ = groups()
    prepared = objective.prepare(made)
    n = len(prepared.completions)
    width = max(c.tokens.size for c in prepared.completions)
    gradients, values = [], []
    for layout in ("flat", "padded", "packed"):
        policy = TinyPolicy()
        rows = [policy.logp(c) for c in prepared.completions]
        if layout == "flat":
            value = objective.token_loss_sum(prepared, range(n), torch.cat(rows))
        else:
            padded = torch.full((n, width), torch.nan, dtype=torch.float64)
            behaviour = torch.full((n, width), 1e9, dtype=torch.float64)
            sampled = torch.zeros(n, width, dtype=torch.bool)
            present = torch.zeros(n, width, dtype=torch.bool)
            for i, c in enumerate(prepared.completions):
                mask = torch.from_numpy(c.sampled)
                sampled[i, : mask.numel()] = mask
                present[i, : mask.numel()] = True
                behaviour[i, sampled[i]] = torch.from_numpy(c.logprobs[c.sampled]).double()
            padded = padded.masked_scatter(sampled, torch.cat(rows))
            if layout == "padded":
                batch = TokenBatch.from_padded(padded, behaviour, sampled)
            else:
                completion = present.nonzero(as_tuple=True)[0]
                batch = TokenBatch.from_packed(
                    padded[present], behaviour[present], completion, sampled[present], n
                )
            value = weighted_loss_sum(batch, prepared.advantage, prepared.weight, objective.loss)
        value.backward()
        values.append(value.item())
        gradients.append(policy.gradient())
    for value, gradient in zip(values[1:], gradients[1:], strict=True):
        assert abs(value - values[0]) <= 1e-6 * abs(values[0])
        assert (gradient - gradients[0]).norm() <= 1e-6 * gradients[0].norm()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_on_policy_the_losses_have_one_gradient(aggregation):
    made, _ = groups()
    gradients = {}
    for loss in (["loss=cispo"], ["loss=clip"], ["loss=clip", "loss.eps_high=0.2"], ["loss=gspo"]):
        objective = Objective.from_recipe(recipe(*loss, f"aggregation={aggregation}"))
        prepared = objective.prepare(made)
        logp = prepared.behaviour_logp.double().requires_grad_()
        objective.token_loss_sum(prepared, range(len(prepared.weight)), logp).backward()
        gradients[tuple(loss)] = logp.grad
    first, *others = gradients.values()
    assert first.norm() > 0.01
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-9, atol=1e-15)


def test_cispo_without_a_bound_is_importance_weighted_reinforce():
    made, trainer = groups()
    objective = Objective.from_recipe(
        recipe("loss=cispo", "loss.eps_max=.inf", "aggregation=token", "advantage=none")
    )
    prepared = objective.prepare(made)
    indices = range(len(prepared.weight))
    logp = flat_logp(prepared, trainer, indices)
    objective.token_loss_sum(prepared, indices, logp).backward()
    rho = (logp.detach() - prepared.behaviour_logp).exp()
    advantage = torch.repeat_interleave(prepared.advantage, prepared.lengths)
    torch.testing.assert_close(logp.grad, -rho * advantage / prepared.lengths.sum())
    # the same as the gradient of E_gen[rho A], the unclipped surrogate
    surrogate = flat_logp(prepared, trainer, indices)
    (-(surrogate - prepared.behaviour_logp).exp() * advantage).sum().div(prepared.lengths.sum()).backward()
    torch.testing.assert_close(logp.grad, surrogate.grad)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=12),
    st.integers(1, 4),
    st.sampled_from(AGGREGATIONS[:3]),
)
def test_weights_of_a_mean_add_up_to_one(lengths, prompts, aggregation):
    from scalerl.objective.aggregation import token_weights

    lengths = torch.tensor(lengths)
    prompt = torch.arange(len(lengths)) % min(prompts, len(lengths))
    weights = token_weights(aggregation, lengths, prompt, max_tokens=99)
    assert abs(float((weights * lengths).sum()) - 1) < 1e-12


def test_aggregations_coincide_at_equal_lengths_and_equal_groups():
    from scalerl.objective.aggregation import token_weights

    lengths, prompt = torch.full((6,), 5), torch.tensor([0, 0, 1, 1, 2, 2])
    for aggregation in AGGREGATIONS:
        weights = token_weights(aggregation, lengths, prompt, max_tokens=5)
        torch.testing.assert_close(weights, torch.full((6,), 1 / 30, dtype=torch.float64))
