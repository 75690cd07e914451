"""The derivatives that are written out, against numerical ones; the functions, against torch's own."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.autograd import gradcheck

from scalerl.policy.differentiable import rms_norm, rotate, swiglu
from scalerl.policy.row_attention import RowBlock, attend_rows


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def blocks_of(prompts: int, room: int, rows: list[tuple[list[int], int]]) -> list[RowBlock]:
    """Blocks of (each row's prompt, length); the last column of prompt 0 is padding."""
    blocks, start = [], 0
    for owners, length in rows:
        mask = torch.zeros(len(owners), 1, 1, length, room + length, dtype=torch.float64)
        mask[..., room:] += torch.full((length, length), -torch.inf, dtype=torch.float64).triu(1)
        mask[torch.tensor(owners) == 0, ..., room - 1] = -torch.inf
        sharing = (torch.arange(prompts)[:, None] == torch.tensor(owners)).double()
        blocks.append(RowBlock(start, length, torch.tensor(owners), sharing, mask))
        start = blocks[-1].stop
    return blocks


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
def test_attention_over_prompt_and_own_tokens(queries_per_key):
    kv_heads, room, head_dim = 2, 3, 4
    blocks = blocks_of(2, room, [([1, 0, 1], 3), ([0, 1], 1)])
    tokens = blocks[-1].stop
    query = random(tokens, kv_heads * queries_per_key, head_dim)
    key, value = random(tokens, kv_heads, head_dim, seed=1), random(tokens, kv_heads, head_dim, seed=2)
    prompt_key = random(2, kv_heads, room, head_dim, seed=3)
    prompt_value = random(2, kv_heads, room, head_dim, seed=4)
    inputs = (query, key, value, prompt_key, prompt_value)
    attended = attend_rows(*inputs, blocks, 0.5)
    # row 1 of the first block, its last token, head 0: goes on from prompt 0, whose last column is padding
    seen_keys = torch.cat((prompt_key[0, 0, : room - 1], key[3:6, 0]))
    seen_values = torch.cat((prompt_value[0, 0, : room - 1], value[3:6, 0]))
    expected = (0.5 * seen_keys @ query[5, 0]).softmax(0) @ seen_values
    torch.testing.assert_close(attended[5, :head_dim], expected)
    assert gradcheck(lambda *x: attend_rows(*x, blocks, 0.5), inputs)
