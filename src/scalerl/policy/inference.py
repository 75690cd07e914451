"""The forward pass without gradients, over an engine's own copy of the weights, laid out for speed.

What it does differently from `policy.lean`, whose results it gives up to rounding: the two coordinates that
rotary embedding turns together lie side by side, so that turning is one complex product in place; and for a
small vocabulary the first layer's queries, keys and values, which depend on the token alone before they are
turned, are a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from scalerl.policy.differentiable import rms_norm, swiglu
from scalerl.policy.lean import Architecture, Attend, LayerWeights, Projection, Weights, weights_of


@dataclass(frozen=True, slots=True)
class InferenceWeights:
    """Copied weights whose queries and keys have the order of `pairs`; `first` [V, (H + 2 K) * E] or None."""

    weights: Weights
    first: Tensor | None

    @property
    def embedding(self) -> Tensor:
        """[V, D]; its type and device are the pass's."""
        return self.weights.embedding


def inference_weights(
    architecture: Architecture, named: Mapping[str, Tensor], *, largest_table: int
) -> InferenceWeights:
    """Copy named Hugging Face tensors for this pass; UserError when one is missing.

    The first layer's table is made for vocabularies of at most `largest_table` tokens: it costs as much as
    feeding each of them once.
    """
    weights = weights_of(architecture, named, copied=True)
    weights = replace(weights, layers=tuple(_in_pairs(architecture, layer) for layer in weights.layers))
    if len(weights.embedding) > largest_table:
        return InferenceWeights(weights, None)
    layer = weights.layers[0]
    with torch.no_grad():
        normed = rms_norm(weights.embedding, layer.attention_norm, architecture.norm_eps)
        return InferenceWeights(weights, layer.qkv.joined(normed))


def pairs(x: Tensor) -> Tensor:
    """The last dimension's halves interleaved: 0, E/2, 1, E/2 + 1, ... x [..., E] -> [..., E], a copy."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def halves(x: Tensor) -> Tensor:
    """The way back from `pairs`: x [..., E] -> [..., E], a copy."""
    return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


def rope_turns(architecture: Architecture, length: int, like: Tensor) -> Tensor:
    """exp(i angle) of positions 0..length-1, times the scaling: complex [length, E / 2], where `like` is."""
    positions = torch.arange(length, device=like.device, dtype=torch.float32)
    angles = torch.outer(positions, architecture.inverse_frequencies.to(like.device))
    turns = torch.polar(torch.full_like(angles, architecture.rope_scaling), angles)
    return turns.to(torch.complex128) if like.dtype == torch.float64 else turns


def hidden_states(
    architecture: Architecture, inference: InferenceWeights, tokens: Tensor, turns: Tensor, attend: Attend
) -> Tensor:
    """Final, normed hidden states [T, D] of a flat stream of tokens [T]; without gradients.

    turns: `rope_turns`' rows at the tokens' positions, [T, E / 2]. What `attend` is given has the order of
    `pairs`.
    """
    weights, eps = inference.weights, architecture.norm_eps
    turns = turns.unsqueeze(1)
    x = F.embedding(tokens, weights.embedding)
    for index, layer in enumerate(weights.layers):
        if index == 0 and inference.first is not None:
            qkv = inference.first.index_select(0, tokens)
        else:
            qkv = layer.qkv.joined(rms_norm(x, layer.attention_norm, eps))
        query, key, value = _turned(architecture, layer, qkv, turns)
        x = layer.output.added_to(x, attend(index, query, key, value))
        gate, up = layer.gate_up(rms_norm(x, layer.mlp_norm, eps))
        x = layer.down.added_to(x, swiglu(gate, up))
    return rms_norm(x, weights.final_norm, eps)


def _turned(
    architecture: Architecture, layer: LayerWeights, qkv: Tensor, turns: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """qkv [T, (H + 2 K) * E], which may be overwritten -> queries [T, H, E], keys and values [T, K, E]."""
    heads, last = architecture.heads, architecture.heads + architecture.kv_heads
    qkv = qkv.view(len(qkv), -1, architecture.head_dim)
    both, value = qkv[:, :last], qkv[:, last:]
    if layer.query_norm is not None and layer.key_norm is not None:
        query = rms_norm(both[:, :heads], layer.query_norm, architecture.norm_eps)
        key = rms_norm(both[:, heads:], layer.key_norm, architecture.norm_eps)
        both = torch.cat((query, key), dim=1)
    wide = both if turns.real.dtype == both.dtype else both.to(turns.real.dtype)
    torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(turns)
    both = wide.to(qkv.dtype)
    return both[:, :heads], both[:, heads:], value


def _in_pairs(architecture: Architecture, layer: LayerWeights) -> LayerWeights:
    """The layer with queries and keys in the order of `pairs`; their products stay what they are."""
    query_norm, key_norm = (None if n is None else pairs(n) for n in (layer.query_norm, layer.key_norm))
    weights = tuple(_rows_in_pairs(architecture, w) for w in layer.qkv.weights)
    biases = layer.qkv.biases and tuple(_rows_in_pairs(architecture, b) for b in layer.qkv.biases)
    qkv = Projection(weights, biases, layer.qkv.sizes)
    return replace(layer, qkv=qkv, query_norm=query_norm, key_norm=key_norm)


def _rows_in_pairs(architecture: Architecture, fused: Tensor) -> Tensor:
    """Fused q/k/v rows [(H + 2 K) * E, ...], each query's and key's E rows reordered."""
    turned = (architecture.heads + architecture.kv_heads) * architecture.head_dim
    by_head = fused[:turned].unflatten(0, (-1, 2, architecture.head_dim // 2))
    return torch.cat((by_head.transpose(1, 2).flatten(0, 2), fused[turned:]))
