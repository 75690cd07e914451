"""Prefill: many sequences through the model at once, giving keys, values and the last hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from scalerl.policy.inference import InferenceWeights, hidden_states
from scalerl.policy.lean import Architecture, Attend

MAX_PREFILL_TOKENS = 1 << 15
"""Padded tokens that go through the model together: bounds the memory, not the result."""
PADDING_SHARE = 0.1
"""Sequences of a reading are padded to its longest; a reading is closed when this share would be padding."""
FREE_PADDING_TOKENS = 128
"""Padding that isn't worth a reading of its own."""


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


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens that go through the model together: tokens [T], `rope_turns`' rows [T, E / 2], attention."""

    tokens: Tensor
    turns: Tensor
    attend: Attend


class Reading:
    """Sequences (of at least one token each) of like lengths, to be read from their beginning."""

    def __init__(self, places: Sequence[int], sequences: Sequence[Sequence[int]], turns: Tensor) -> None:
        """places: where the sequences come from. turns: `rope_turns` of at least their positions."""
        self.places = places
        self._lengths = [len(sequence) for sequence in sequences]
        count, longest = len(sequences), max(self._lengths)
        # padded on the right: causal attention never lets a token see the padding after it
        padded = [[*sequence, *([0] * (longest - len(sequence)))] for sequence in sequences]
        tokens = torch.tensor(padded, device=turns.device).flatten()
        self._attend = _CausalAttention(count, longest)
        self.stretch = Stretch(tokens, turns[:longest].repeat(count, 1), self._attend)

    def prefixes(self, hidden: Tensor) -> list[Prefix]:
        """What the model made of each sequence, from the stretch's hidden states [T, D]."""
        hidden = hidden.view(len(self._lengths), -1, hidden.shape[-1])
        keys, values = torch.stack(self._attend.keys), torch.stack(self._attend.values)
        return [
            Prefix(keys[:, row, :, :length], values[:, row, :, :length], hidden[row, length - 1])
            for row, length in enumerate(self._lengths)
        ]


def readings(sequences: Sequence[Sequence[int]], turns: Tensor) -> list[Reading]:
    """Cut sequences into readings of little padding and at most `MAX_PREFILL_TOKENS` (or one sequence)."""
    by_length = sorted(range(len(sequences)), key=lambda place: -len(sequences[place]))
    cut: list[list[int]] = []
    tokens = 0
    for place in by_length:
        tokens += len(sequences[place])
        padded = len(sequences[cut[-1][0]]) * (len(cut[-1]) + 1) if cut else MAX_PREFILL_TOKENS + 1
        padding = padded - tokens
        if padded > MAX_PREFILL_TOKENS or padding > max(FREE_PADDING_TOKENS, PADDING_SHARE * padded):
            cut.append([])
            tokens = len(sequences[place])
        cut[-1].append(place)
    return [Reading(places, [sequences[place] for place in places], turns) for places in cut]


def in_order(read: Sequence[Reading], hidden: Sequence[Tensor]) -> list[Prefix]:
    """The prefixes of all readings, from the hidden states of each, where their sequences came from."""
    prefixes = {
        place: prefix
        for reading, states in zip(read, hidden, strict=True)
        for place, prefix in zip(reading.places, reading.prefixes(states), strict=True)
    }
    return [prefixes[place] for place in sorted(prefixes)]


@torch.no_grad()
def prefill(
    architecture: Architecture,
    weights: InferenceWeights,
    sequences: Sequence[Sequence[int]],
    turns: Tensor,
) -> list[Prefix]:
    """Read sequences from their beginning; `turns`: `rope_turns` of at least the longest one's positions."""
    cut = readings(sequences, turns)
    return in_order(cut, run_stretches(architecture, weights, [reading.stretch for reading in cut]))


def run_stretches(
    architecture: Architecture, weights: InferenceWeights, stretches: Sequence[Stretch]
) -> list[Tensor]:
    """Hidden states [T, D] of each stretch.

    Neighbours pass the model together, up to `MAX_PREFILL_TOKENS`: a pass of few tokens is mostly the calls.
    """
    hidden: list[Tensor] = []
    together: list[Stretch] = []
    for stretch in stretches:
        if together and sum(len(one.tokens) for one in (*together, stretch)) > MAX_PREFILL_TOKENS:
            hidden += _one_pass(architecture, weights, together)
            together = []
        together.append(stretch)
    return hidden + _one_pass(architecture, weights, together)


def _one_pass(
    architecture: Architecture, weights: InferenceWeights, stretches: Sequence[Stretch]
) -> list[Tensor]:
    if not stretches:
        return []
    if len(stretches) == 1:
        only = stretches[0]
        return [hidden_states(architecture, weights, only.tokens, only.turns, only.attend)]
    sizes = [len(stretch.tokens) for stretch in stretches]

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = zip(query.split(sizes), key.split(sizes), value.split(sizes), strict=True)
        return torch.cat([one.attend(layer, *part) for one, part in zip(stretches, parts, strict=True)])

    tokens, turns = torch.cat([one.tokens for one in stretches]), torch.cat([one.turns for one in stretches])
    return list(hidden_states(architecture, weights, tokens, turns, attend).split(sizes))
