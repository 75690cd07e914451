"""Prefill: many sequences through the model at once, giving keys, values and the last hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from scalerl.policy.inference import InferenceWeights, hidden_states, rope_turns
from scalerl.policy.lean import Architecture

MAX_PREFILL_TOKENS = 1 << 15
"""Padded tokens that go through the model together: bounds the memory, not the result."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A sequence's keys and values [layers, K, P, E] and the hidden state [D] after its last token.

    Keys have the order of `policy.inference.pairs`.
    """

    keys: Tensor
    values: Tensor
    hidden: Tensor


class _CausalAttention:
    """Causal self-attention over B sequences padded to length S; keeps every layer's keys and values."""

    def __init__(self, count: int, length: int) -> None:
        self._count, self._length = count, length
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, _layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        split = (self._count, self._length, -1, query.shape[-1])
        query, key, value = (x.reshape(split).transpose(1, 2) for x in (query, key, value))
        self.keys.append(key)
        self.values.append(value)
        grouped = query.shape[1] != key.shape[1]
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
        return attended.transpose(1, 2).reshape(self._count * self._length, -1)


@torch.no_grad()
def prefill(
    architecture: Architecture, weights: InferenceWeights, sequences: Sequence[Sequence[int]]
) -> list[Prefix]:
    """Run sequences (of at least one token each) from their beginning, in order, several together."""
    prefixes: list[Prefix] = []
    start = 0
    while start < len(sequences):
        end, longest = start, 0
        while end < len(sequences):
            longest = max(longest, len(sequences[end]))
            if end > start and longest * (end + 1 - start) > MAX_PREFILL_TOKENS:
                break
            end += 1
        prefixes += _prefill_together(architecture, weights, sequences[start:end])
        start = end
    return prefixes


def _prefill_together(
    architecture: Architecture, weights: InferenceWeights, sequences: Sequence[Sequence[int]]
) -> list[Prefix]:
    lengths = [len(sequence) for sequence in sequences]
    count, longest = len(sequences), max(lengths)
    # padded on the right: causal attention never lets a token see the padding after it
    padded = [[*sequence, *([0] * (longest - len(sequence)))] for sequence in sequences]
    tokens = torch.tensor(padded, device=weights.embedding.device).flatten()
    attend = _CausalAttention(count, longest)
    turns = rope_turns(architecture, longest, weights.embedding).repeat(count, 1)
    hidden = hidden_states(architecture, weights, tokens, turns, attend).view(count, longest, -1)
    keys, values = torch.stack(attend.keys), torch.stack(attend.values)
    return [
        Prefix(keys[:, row, :, :length], values[:, row, :, :length], hidden[row, length - 1])
        for row, length in enumerate(lengths)
    ]
