"""Attention of completions over their prompt and themselves, its derivative written out.

Completions come in buckets of one padded length (`policy.packing`); a prompt's keys and values come once
and are shared by all its completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class RowBlock:
    """R completions of `length` tokens, tokens `start` to `stop` of the completions' part of the stream.

    `owners` [R]: each one's prompt. `sharing` [G, R]: 1 where completion r goes on from prompt g: a product
    with it adds up the gradients of a prompt, in an order that is always the same. `mask` [R or 1, 1, 1, L,
    P + L]: 0 where a token may look, -inf elsewhere.
    """

    start: int
    length: int
    owners: Tensor
    sharing: Tensor
    mask: Tensor

    @property
    def stop(self) -> int:
        """Where the next block begins."""
        return self.start + len(self.owners) * self.length


def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prompt_key: Tensor,
    prompt_value: Tensor,
    blocks: Sequence[RowBlock],
    scale: float,
) -> Tensor:
    """query [S, H, E], key and value [S, K, E], prompt_key and prompt_value [G, K, P, E] -> [S, H * E]."""
    attended: Tensor = _AttendRows.apply(query, key, value, prompt_key, prompt_value, blocks, scale)
    return attended


class _AttendRows(torch.autograd.Function):
    """Softmax attention, block by block; the weights are kept for the derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prompt_key: Tensor,
        prompt_value: Tensor,
        blocks: Sequence[RowBlock],
        scale: float,
    ) -> Tensor:
        heads = key.shape[1]
        attended = torch.empty_like(query, memory_format=torch.contiguous_format)
        saved = []
        for block in blocks:
            queries = _split_heads(query, block, heads).flatten(2, 3).flatten(0, 1)
            keys, values = _join(prompt_key, key, block), _join(prompt_value, value, block)
            scores = torch.bmm(queries, keys.transpose(1, 2))
            by_query = scores.view(len(block.owners), heads, -1, block.length, keys.shape[1])
            torch.add(block.mask, by_query, alpha=scale, out=by_query)
            weights = torch.softmax(scores, dim=-1)
            _part(attended, block, heads).copy_(_by_token(torch.bmm(weights, values), block, heads))
            saved += [queries, keys, values, weights]
        ctx.save_for_backward(*saved)
        ctx.blocks, ctx.scale = blocks, scale
        ctx.shapes = query.shape, key.shape, prompt_key.shape
        return attended.flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query_shape, key_shape, prompt_shape = ctx.shapes
        heads = key_shape[1]
        grad = grad.reshape(query_shape)
        grad_query = grad.new_empty(query_shape)
        grad_key, grad_value = grad.new_empty(key_shape), grad.new_empty(key_shape)
        grad_prompt_key, grad_prompt_value = grad.new_zeros(prompt_shape), grad.new_zeros(prompt_shape)
        for index, block in enumerate(ctx.blocks):
            queries, keys, values, weights = ctx.saved_tensors[4 * index : 4 * index + 4]
            grad_out = _split_heads(grad, block, heads).flatten(2, 3).flatten(0, 1)
            _cut(torch.bmm(weights.transpose(1, 2), grad_out), grad_value, grad_prompt_value, block)
            grad_weights = torch.bmm(grad_out, values.transpose(1, 2))
            grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            of_queries = _scaled_product(grad_scores, keys, ctx.scale)
            _part(grad_query, block, heads).copy_(_by_token(of_queries, block, heads))
            of_keys = _scaled_product(grad_scores.transpose(1, 2), queries, ctx.scale)
            _cut(of_keys, grad_key, grad_prompt_key, block)
        return grad_query, grad_key, grad_value, grad_prompt_key, grad_prompt_value, None, None


def _part(stream: Tensor, block: RowBlock, heads: int) -> Tensor:
    """A block's part of [S, H, E]: a view [R, L, K, H / K, E]."""
    rows = stream[block.start : block.stop]
    return rows.view(len(block.owners), block.length, heads, -1, stream.shape[-1])


def _split_heads(stream: Tensor, block: RowBlock, heads: int) -> Tensor:
    """A block's part of [S, H, E]: a copy [R, K, H / K, L, E]."""
    return _part(stream, block, heads).permute(0, 2, 3, 1, 4).contiguous()


def _by_token(x: Tensor, block: RowBlock, heads: int) -> Tensor:
    """[R * K, H / K * L, E] -> [R, L, K, H / K, E], a view."""
    split = x.view(len(block.owners), heads, -1, block.length, x.shape[-1])
    return split.permute(0, 3, 1, 2, 4)


def _join(prompts: Tensor, stream: Tensor, block: RowBlock) -> Tensor:
    """[G, K, P, E] and [S, K, E] -> [R * K, P + L, E]: each completion's prompt, then its own."""
    own = _part(stream, block, stream.shape[1]).squeeze(3).transpose(1, 2)
    return torch.cat((prompts.index_select(0, block.owners), own), dim=2).flatten(0, 1)


def _cut(joined: Tensor, stream: Tensor, prompts: Tensor, block: RowBlock) -> None:
    """The way back for gradients: its own written to [S, K, E], the prompts' added to [G, K, P, E]."""
    room = prompts.shape[2]
    rows = joined.view(len(block.owners), stream.shape[1], -1, joined.shape[-1])
    _part(stream, block, stream.shape[1]).squeeze(3).copy_(rows[:, :, room:].transpose(1, 2))
    prompts.flatten(1).addmm_(block.sharing, rows[:, :, :room].flatten(1))


def _scaled_product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Batched scale * a @ b."""
    unused = a.new_empty(())  # beta = 0: it isn't read
    return torch.baddbmm(unused, a, b, beta=0, alpha=scale)
