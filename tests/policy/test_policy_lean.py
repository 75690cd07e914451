"""The lean pass and the packed training forward against Hugging Face's own forward pass."""

import numpy as np
import pytest
import torch

from scalerl.errors import UserError
from scalerl.policy.forward import completion_hidden, completion_logprobs
from scalerl.policy.lean import architecture_of, weights_of
from scalerl.policy.load import Policy, load_policy, new_policy, save_policy

TINY = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
    "initializer_range": 0.2,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS = {
    "llama": TINY,
    "grouped_untied": {**TINY, "num_key_value_heads": 2, "tie_word_embeddings": False},
    "llama3_rope": {**TINY, "rope_parameters": LLAMA3_ROPE},
    "llama_bias": {**TINY, "attention_bias": True},
    "qwen3": {**TINY, "model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16},
    "qwen2": {**TINY, "model_type": "qwen2", "num_key_value_heads": 2},
}
GROUPS_LENGTHS = [(5, [1, 7, 7, 12]), (9, [20, 2, 3, 7]), (1, [4, 4])]


def made(name: str, dtype: torch.dtype = torch.float64) -> Policy:
    policy = new_policy(MODELS[name], seed=3, dtype=dtype)
    generator = torch.Generator().manual_seed(5)
    for parameter_name, parameter in policy.parameters().items():
        if "norm" in parameter_name or parameter_name.endswith(
            "bias"
        ):  # else ones and zeros would hide mistakes
            with torch.no_grad():
                parameter.copy_(1 + 0.3 * torch.randn(parameter.shape, generator=generator))
    return policy


def random_groups(seed: int = 0):
    rng = np.random.default_rng(seed)
    return [
        (tuple(rng.integers(0, 32, p)), [rng.integers(0, 32, length) for length in lengths])
        for p, lengths in GROUPS_LENGTHS
    ]


def hugging_face_logprobs(policy: Policy, groups) -> torch.Tensor:
    """Each completion's log-probabilities from a separate, full forward pass over prompt + completion."""
    parts = []
    for prompt, completions in groups:
        for tokens in completions:
            sequence = torch.tensor([[*prompt, *tokens.tolist()]])
            logits = policy.model(sequence).logits[0, len(prompt) - 1 : -1]
            parts.append(logits.log_softmax(-1).gather(1, torch.from_numpy(tokens)[:, None])[:, 0])
    return torch.cat(parts)


@pytest.mark.parametrize("name", MODELS)
def test_logprobs_and_gradients_equal_hugging_face(name):
    policy, groups = made(name), random_groups()
    total = sum(sum(lengths) for _, lengths in GROUPS_LENGTHS)
    weight = torch.randn(total, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, _ = completion_logprobs(policy, groups, fp32_head=True)
    (ours * weight).sum().backward()
    gradients = {n: p.grad.clone() for n, p in policy.parameters().items()}
    policy.model.zero_grad()
    theirs = hugging_face_logprobs(policy, groups)
    (theirs * weight).sum().backward()
    assert ours.dtype == torch.float64
    # Hugging Face computes its norms and softmax in float32, whatever the model's type
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
    for parameter_name, parameter in policy.parameters().items():
        scale = parameter.grad.abs().max().clamp(min=1)
        torch.testing.assert_close(
            gradients[parameter_name] / scale, parameter.grad / scale, rtol=0, atol=5e-5, msg=parameter_name
        )


@pytest.mark.parametrize("name", MODELS)
def test_float32_logprobs_within_1e_minus_5_of_hugging_face(name):
    policy, groups = made(name, torch.float32), random_groups(1)
    with torch.no_grad():
        ours, _ = completion_logprobs(policy, groups, fp32_head=True)
        theirs = hugging_face_logprobs(policy, groups)
    assert (ours - theirs).abs().max() <= 1e-5


def test_micro_batches_by_group_add_up_to_the_whole_gradient():
    policy, groups = made("qwen3"), random_groups()
    whole, _ = completion_logprobs(policy, groups, fp32_head=True)
    whole.sum().backward()
    expected = {n: p.grad.clone() for n, p in policy.parameters().items()}
    policy.model.zero_grad()
    for group in groups:
        part, _ = completion_logprobs(policy, [group], fp32_head=True)
        part.sum().backward()
    for name, parameter in policy.parameters().items():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-9, atol=1e-9)


def test_hidden_states_come_in_completion_order():
    policy, groups = made("llama"), random_groups()
    _, head, targets = completion_hidden(policy, groups)
    assert targets.tolist() == [int(t) for _, group in groups for tokens in group for t in tokens]
    assert head is policy.parameters()["model.embed_tokens.weight"]


def test_training_weights_are_the_models_own_and_an_engines_are_not():
    policy = made("llama")
    architecture = architecture_of(policy.model)
    name = "model.layers.0.self_attn.k_proj.weight"
    own = weights_of(architecture, policy.parameters(), copied=False)
    assert own.layers[0].qkv.weights[1] is policy.parameters()[name]
    copy = weights_of(architecture, policy.weights(), copied=True)
    before = copy.layers[0].qkv.weights[0].clone()
    with torch.no_grad():
        policy.parameters()[name].add_(1)
    assert torch.equal(copy.layers[0].qkv.weights[0], before)


def test_a_missing_tensor_is_named():
    policy = made("llama")
    weights = policy.weights()
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(UserError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        weights_of(architecture_of(policy.model), weights, copied=True)


def test_unsupported_architecture_names_the_other_engine():
    small = {"model_type": "gpt2", "vocab_size": 16, "n_embd": 8, "n_layer": 1, "n_head": 1}
    with pytest.raises(UserError, match="vllm"):
        architecture_of(new_policy(small, 0).model)


def test_saved_policy_loads_equal(tmp_path):
    policy = made("qwen3", torch.float32)
    save_policy(policy, tmp_path / "model")
    again = load_policy(tmp_path / "model")
    assert again.path == tmp_path / "model"
    for name, parameter in policy.parameters().items():
        assert torch.equal(parameter, again.parameters()[name])


def test_new_policy_depends_on_the_seed_only():
    state = torch.random.get_rng_state()
    first, second, other = (new_policy(TINY, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(first.parameters()[name], second.parameters()[name])
    assert not torch.equal(first.parameters()[name], other.parameters()[name])


def test_parameters_without_embeddings_by_hand():
    per_layer = 4 * 32 * 32 + 3 * 32 * 48 + 2 * 32
    assert new_policy(TINY, 0).parameters_without_embeddings() == 2 * per_layer + 32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: load_policy(folder / "none"), "no such folder"),
        (lambda folder: load_policy(folder), "no config.json"),
        (lambda folder: new_policy(TINY, 0, dtype="float12"), "float12"),
        (lambda folder: new_policy(TINY, 0, device="nowhere"), "nowhere"),
        (lambda folder: new_policy({"model_type": "no-such-model"}, 0), "no-such-model"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, make, message):
    with pytest.raises(UserError, match=message) as caught:
        make(tmp_path)
    assert "\n" not in str(caught.value)
