"""The derivatives that are written out, against numerical ones; the functions, against torch's own."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.autograd import gradcheck

from scalerl.policy import packing
from scalerl.policy.differentiable import rms_norm, rotate, swiglu
from scalerl.policy.row_attention import attend_rows
from scalerl.policy.row_layout import RowLayout


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("shape", [(5, 6), (3, 2, 4)])
def test_rms_norm(shape):
    x, weight = random(*shape), random(shape[-1], seed=1)
    torch.testing.assert_close(rms_norm(x, weight, 1e-3), F.rms_norm(x, (shape[-1],), weight, 1e-3))
    assert gradcheck(lambda x, w: rms_norm(x, w, 1e-3), (x, weight))


def test_rms_norm_of_heads_that_lie_apart():
    whole = random(4, 3, 6)
    assert gradcheck(lambda x: rms_norm(x[:, :2], torch.ones(6, dtype=torch.float64), 1e-3), (whole,))


def test_swiglu():
    gate, up = random(4, 5), random(4, 5, seed=1)
    torch.testing.assert_close(swiglu(gate, up), F.silu(gate) * up)
    assert gradcheck(swiglu, (gate, up))


def test_rotation_keeps_lengths_and_turns_back():
    angles = torch.randn(4, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cos = torch.cat((angles.cos(), angles.cos()), -1)
    sin = torch.cat((-angles.sin(), angles.sin()), -1)
    x = random(4, 2, 6)
    turned = rotate(x, cos, sin)
    torch.testing.assert_close(turned.square().sum(-1), x.square().sum(-1))
    torch.testing.assert_close(rotate(turned, cos, -sin), x)
    assert gradcheck(lambda x: rotate(x, cos, sin), (x,))


@pytest.mark.parametrize("queries_per_key", [1, 2])
def test_attention_over_prompt_and_own_tokens(queries_per_key, monkeypatch):
    monkeypatch.setattr(packing, "FREE_PADDING_TOKENS", 1)
    kv_heads, room, head_dim = 2, 3, 4
    rows = [3, 1, 3, 2, 1]  # fed tokens; the last one of each completion isn't
    tokens = [np.zeros(length + 1, dtype=np.int64) for length in rows]
    packed = packing.pack([((1, 1), tokens[:2]), ((1, 1, 1), tokens[2:])])
    assert len(packed.blocks) > 1
    layout = RowLayout.of(packed, kv_heads * queries_per_key, kv_heads, random(1))
    query = random(sum(rows), kv_heads * queries_per_key, head_dim)
    key, value = random(sum(rows), kv_heads, head_dim, seed=1), random(sum(rows), kv_heads, head_dim, seed=2)
    prompt_key = random(2, kv_heads, room, head_dim, seed=3)
    prompt_value = random(2, kv_heads, room, head_dim, seed=4)
    inputs = (query, key, value, prompt_key, prompt_value)
    attended = attend_rows(*inputs, layout, 0.5)
    start = 0
    for length, prompt, prompt_length in zip(rows, (0, 0, 1, 1, 1), (2, 2, 3, 3, 3), strict=True):
        for token in range(start, start + length):
            for head in range(kv_heads * queries_per_key):
                shared = head // queries_per_key
                own = slice(start, token + 1)
                keys = torch.cat((prompt_key[prompt, shared, :prompt_length], key[own, shared]))
                values = torch.cat((prompt_value[prompt, shared, :prompt_length], value[own, shared]))
                expected = (0.5 * keys @ query[token, head]).softmax(0) @ values
                torch.testing.assert_close(attended[token].view(-1, head_dim)[head], expected)
        start += length
    assert gradcheck(lambda *x: attend_rows(*x, layout, 0.5), inputs)


def test_attention_of_no_token_at_all():
    packed = packing.pack([((1, 1), [np.zeros(1, dtype=np.int64)])])
    layout = RowLayout.of(packed, 2, 2, random(1))
    inputs = (random(0, 2, 4), random(0, 2, 4), random(0, 2, 4), random(1, 2, 2, 4), random(1, 2, 2, 4))
    attended = attend_rows(*inputs, layout, 0.5)
    assert attended.shape == (0, 8)
    attended.sum().backward()
    assert all(x.grad is not None and not x.grad.any() for x in inputs)
