"""Trainer against generator on one bf16 model, tied weights: what the FP32 head does to the mismatch."""

import numpy as np
import pytest
import torch

from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.torch_engine import TorchEngine, generate_all
from scalerl.policy.forward import completion_logprobs
from scalerl.policy.load import new_policy

CONFIG = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}


def policy(dtype, seed):
    """A random model whose logits are as a trained one's: spread by some units and far from zero."""
    made = new_policy(CONFIG, seed, dtype=dtype)
    with torch.no_grad():
        for name, parameter in made.parameters().items():
            if "embed_tokens" in name:
                parameter.mul_(10)
                parameter.add_(parameter.float().std().to(parameter.dtype))
            elif "norm" not in name:
                parameter.mul_(3)
    return made


def mismatch(dtype, fp32_head, seed):
    """Log-prob of the trainer minus the generator's, at every sampled token, on the very same weights."""
    made = policy(dtype, seed)
    engine = TorchEngine(made, slots=48, seed=1, end_token=0, fp32_head=fp32_head)
    requests = [
        GroupRequest(g, f"p{g}", tuple(range(1 + g, 9 + g)), tuple(Budget(30, 2) for _ in range(8)))
        for g in range(4)
    ]
    completions = generate_all(engine, requests)
    groups = [(r.prompt, [c.tokens for c in completions if c.group == r.group]) for r in requests]
    with torch.no_grad():
        logp, _ = completion_logprobs(made, groups, fp32_head=fp32_head)
    return logp.double().numpy() - np.concatenate([c.logprobs for c in completions])


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def test_fp32_head_brings_trainer_and_generator_closer_under_bf16(record_property):
    seeds = range(3)
    with_fp32 = rms(np.concatenate([mismatch("bfloat16", True, seed) for seed in seeds]))
    without = rms(np.concatenate([mismatch("bfloat16", False, seed) for seed in seeds]))
    record_property("rms_nats_fp32_head", with_fp32)
    record_property("rms_nats_model_head", without)
    print(f"rms of log pi_train - log pi_gen: {with_fp32:.4f} nats with the FP32 head, {without:.4f} without")
    assert with_fp32 < 0.02
    assert without > 1.4 * with_fp32


@pytest.mark.parametrize("fp32_head", [True, False])
def test_float32_model_agrees_to_1e_4_either_way(fp32_head):
    assert np.abs(mismatch("float32", fp32_head, 0)).max() < 1e-4
