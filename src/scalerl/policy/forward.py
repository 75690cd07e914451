"""The training forward pass: each group's prompt once, its completions attending to it, gradients exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from scalerl.policy.lean import Architecture, architecture_of, hidden_states, rope_tables, weights_of
from scalerl.policy.load import Policy
from scalerl.policy.packing import Bucket, Packing, TokenGroup, pack
from scalerl.policy.token_logprobs import token_logprobs


def completion_logprobs(
    policy: Policy, groups: Sequence[TokenGroup], *, fp32_head: bool, with_entropy: bool = True
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every completion token, each [T], at least float32, in completion order.

    T counts the tokens of all completions of all groups, flat. The log-probabilities carry gradients, the
    entropies don't. All groups go through the model together: cut a batch into micro-batches by groups to
    bound the memory.
    """
    hidden, head, targets = completion_hidden(policy, groups)
    return token_logprobs(hidden, head, targets, fp32_head=fp32_head, with_entropy=with_entropy)


def completion_hidden(policy: Policy, groups: Sequence[TokenGroup]) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states [T, D] that predict completion tokens, the head's weight [V, D] and the tokens [T]."""
    architecture = architecture_of(policy.model)
    weights = weights_of(architecture, policy.parameters(), copied=False)
    packing = pack(groups)
    device = weights.embedding.device
    positions = torch.from_numpy(packing.positions).to(device)
    cos, sin = rope_tables(architecture, int(packing.positions.max()) + 1, weights.embedding)
    tokens = torch.from_numpy(packing.tokens).to(device)
    attend = _PackedAttention(architecture, packing, weights.embedding)
    hidden = hidden_states(architecture, weights, tokens, cos[positions], sin[positions], attend)
    predicting = hidden.index_select(0, torch.from_numpy(packing.predictors).to(device))
    return predicting, weights.head, torch.from_numpy(packing.targets).to(device)


class _PackedAttention:
    """Attention over a packed stream: prompts causally; completions over their prompt and themselves."""

    def __init__(self, architecture: Architecture, packing: Packing, like: Tensor) -> None:
        self._scale = architecture.attention_scale
        self._kv_heads = architecture.kv_heads
        self._packing = packing
        self._sizes = [packing.prompt_tokens, *(bucket.stop - bucket.start for bucket in packing.buckets)]
        self._owners = [torch.from_numpy(bucket.prompts).to(like.device) for bucket in packing.buckets]
        self._masks = [self._mask(bucket, like) for bucket in packing.buckets]

    def _mask(self, bucket: Bucket, like: Tensor) -> Tensor:
        """Additive [rows or 1, 1, 1, L, room + L]: the prompt's padding and the future are hidden."""
        room, length = self._packing.prompt_room, bucket.length
        lengths = torch.from_numpy(self._packing.prompt_lengths[bucket.prompts])
        if bool((lengths == room).all()):
            lengths = lengths[:1]
        hidden = torch.zeros(len(lengths), length, room + length, dtype=torch.bool)
        hidden[:, :, :room] = torch.arange(room) >= lengths[:, None, None]
        hidden[:, :, room:] = torch.ones(length, length, dtype=torch.bool).triu(1)
        mask = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, -torch.inf)
        return mask.to(like.device)[:, None, None]

    def __call__(self, _layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query [S, H, E], key and value [S, K, E] -> [S, H * E]."""
        # split, not slices: its backward is one concatenation, not a zero-filled stream for each part
        queries, keys, values = (x.split(self._sizes) for x in (query, key, value))
        shape = len(self._packing.prompt_lengths), self._packing.prompt_room
        prompt_key, prompt_value = _by_row(keys[0], *shape), _by_row(values[0], *shape)
        grouped = query.shape[1] != key.shape[1]
        attended = F.scaled_dot_product_attention(
            _by_row(queries[0], *shape), prompt_key, prompt_value, is_causal=True, enable_gqa=grouped
        )
        outputs = [attended.transpose(1, 2).reshape(shape[0] * shape[1], -1)]
        for index, (bucket, owner) in enumerate(zip(self._packing.buckets, self._owners, strict=True)):
            own = len(bucket.prompts), bucket.length
            row_keys = torch.cat((prompt_key.index_select(0, owner), _by_row(keys[index + 1], *own)), dim=2)
            row_values = torch.cat(
                (prompt_value.index_select(0, owner), _by_row(values[index + 1], *own)), dim=2
            )
            row_queries = _by_row(queries[index + 1], *own)
            outputs.append(self._attend_rows(row_queries, row_keys, row_values, self._masks[index]))
        return torch.cat(outputs)

    def _attend_rows(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """query [R, H, L, E], keys and values [R, K, M, E], mask [R or 1, 1, 1, L, M] -> [R * L, H * E]."""
        rows, heads, length, head_dim = query.shape
        grouped = query.reshape(rows, self._kv_heads, -1, head_dim)
        scores = (grouped * self._scale) @ keys.transpose(2, 3)
        weights = (scores.view(rows, self._kv_heads, -1, length, keys.shape[2]) + mask).softmax(dim=-1)
        attended = (weights.view(scores.shape) @ values).view(rows, heads, length, head_dim)
        return attended.transpose(1, 2).reshape(rows * length, heads * head_dim)


def _by_row(x: Tensor, rows: int, length: int) -> Tensor:
    """[rows * length, heads, E] -> [rows, heads, length, E]."""
    return x.reshape(rows, length, *x.shape[1:]).transpose(1, 2)
