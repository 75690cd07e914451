"""Where the tokens of a packed stream lie in the blocks that attention works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from scalerl.policy.packing import Block, Ints, Packing


@dataclass(frozen=True, slots=True)
class RowBlock:
    """B bundles of R rows of L tokens, for K key heads with J queries each.

    `queries` [B * K * R * J * L] and `keys` [B * K * R * L] say which (token, head) of the stream is at each
    place, any one where there is padding; `padding`: those places of `queries`. `prompts` [B]; `sharing`
    [G, B]: 1 where bundle b goes on from prompt g: a product with it adds up a prompt's gradients, in an
    order that is always the same. `prompt_mask` [B * K, 1, P] and `causal` [1, J * L, L]: 0 where a token may
    look, -inf elsewhere.
    """

    rows: int
    length: int
    prompts: Tensor
    sharing: Tensor
    queries: Tensor
    keys: Tensor
    padding: Tensor
    prompt_mask: Tensor
    causal: Tensor

    def by_bundle(self, x: Tensor) -> Tensor:
        """Places in their order -> [B * K, R * J * L, ...], a view."""
        return x.view(len(self.prompt_mask), -1, x.shape[-1])

    def by_row(self, x: Tensor) -> Tensor:
        """Places in their order -> [B * K * R, J * L, ...], a view."""
        return x.view(len(self.prompt_mask) * self.rows, -1, x.shape[-1])


@dataclass(frozen=True, slots=True)
class RowLayout:
    """All blocks, and the way back: the place in the blocks of each (token, head), [S * H] and [S * K]."""

    blocks: tuple[RowBlock, ...]
    query_places: Tensor
    key_places: Tensor

    @classmethod
    def of(cls, packing: Packing, heads: int, key_heads: int, like: Tensor) -> RowLayout:
        """The layout of a packed stream's completions, for masks of `like`'s type, on its device."""
        tokens = len(packing.tokens) - packing.prompt_tokens
        indices = [_indices(block, heads, key_heads) for block in packing.blocks]
        queries, keys = ([pair[kind] for pair in indices] for kind in (0, 1))
        blocks = [
            _row_block(packing, block, query, key, like)
            for block, query, key in zip(packing.blocks, queries, keys, strict=True)
        ]
        return cls(
            tuple(blocks),
            torch.from_numpy(_places(queries, tokens * heads)).to(like.device),
            torch.from_numpy(_places(keys, tokens * key_heads)).to(like.device),
        )


def _indices(block: Block, heads: int, key_heads: int) -> tuple[Ints, Ints]:
    """The (token, head) of each place: queries [B, K, R, J, L] and keys [B, K, R, L]; -1 is padding."""
    tokens, shared = block.tokens[:, None], heads // key_heads
    head = np.arange(heads).reshape(1, key_heads, 1, shared, 1)
    key_head = np.arange(key_heads).reshape(1, key_heads, 1, 1)
    queries = np.where(tokens[:, :, :, None] < 0, -1, tokens[:, :, :, None] * heads + head)
    return queries, np.where(tokens < 0, -1, tokens * key_heads + key_head)


def _places(indices: Sequence[Ints], count: int) -> Ints:
    """The inverse: where each of `count` (token, head) is, places counted through all blocks."""
    places = np.zeros(count, dtype=np.int64)
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *(index.ravel() for index in indices)])
    real = np.flatnonzero(flat >= 0)
    places[flat[real]] = real
    return places


def _row_block(packing: Packing, block: Block, queries: Ints, keys: Ints, like: Tensor) -> RowBlock:
    _, key_heads, rows, shared, length = queries.shape
    device = like.device
    prompts = torch.from_numpy(block.prompts).to(device)
    sharing = torch.arange(len(packing.prompt_lengths), device=device)[:, None] == prompts
    beyond = np.arange(packing.prompt_room) >= packing.prompt_lengths[block.prompts, None]
    future = np.triu(np.ones((length, length), dtype=np.bool_), 1)

    def mask(hidden: np.ndarray) -> Tensor:
        return like.new_zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden).to(device), -torch.inf)

    return RowBlock(
        rows=rows,
        length=length,
        prompts=prompts,
        sharing=sharing.to(like.dtype),
        queries=torch.from_numpy(queries.clip(0).ravel()).to(device),
        keys=torch.from_numpy(keys.clip(0).ravel()).to(device),
        padding=torch.from_numpy(np.flatnonzero(queries.ravel() < 0)).to(device),
        prompt_mask=mask(beyond.repeat(key_heads, 0)[:, None]),
        causal=mask(np.tile(future, (shared, 1))[None]),
    )
