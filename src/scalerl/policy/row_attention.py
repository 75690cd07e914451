"""Attention of completions over their prompt and themselves, its derivative written out.

Completions are rows of padded blocks (`policy.row_layout`). A prompt's keys and values come once; the queries
of a bundle, rows of one prompt, meet them in one product, so that nothing of a prompt is copied for a row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from scalerl.policy.row_layout import RowBlock, RowLayout


def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prompt_key: Tensor,
    prompt_value: Tensor,
    layout: RowLayout,
    scale: float,
) -> Tensor:
    """query [S, H, E], key and value [S, K, E], prompt_key and prompt_value [G, K, P, E] -> [S, H * E]."""
    attended: Tensor = _AttendRows.apply(query, key, value, prompt_key, prompt_value, layout, scale)
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
        layout: RowLayout,
        scale: float,
    ) -> Tensor:
        ctx.layout, ctx.scale = layout, scale
        ctx.shapes = query.shape, key.shape, prompt_key.shape
        attended, saved = [], []
        for block in layout.blocks:
            queries, keys, values = (
                _gathered(query, block.queries),
                _gathered(key, block.keys),
                _gathered(value, block.keys),
            )
            prompt_keys, prompt_values = _of_bundles(prompt_key, block), _of_bundles(prompt_value, block)
            over_prompt = torch.baddbmm(
                block.prompt_mask, block.by_bundle(queries), prompt_keys.transpose(1, 2), alpha=scale
            )
            over_row = torch.baddbmm(
                block.causal, block.by_row(queries), block.by_row(keys).transpose(1, 2), alpha=scale
            )
            weights = torch.cat((over_prompt, block.by_bundle(over_row)), dim=-1).softmax(dim=-1)
            of_prompt, of_row = _parts(weights, block)
            out = torch.bmm(of_prompt, prompt_values)
            block.by_row(out).baddbmm_(of_row, block.by_row(values))
            attended.append(out.view(queries.shape))
            saved += [queries, keys, values, weights, prompt_keys, prompt_values]
        ctx.save_for_backward(*saved)
        return _scattered(attended, layout.query_places, query).view(query.shape).flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layout, scale = ctx.layout, ctx.scale
        query_shape, key_shape, prompt_shape = ctx.shapes
        grad = grad.reshape(query_shape)
        of_queries, of_keys, of_values = [], [], []
        grad_prompt_key, grad_prompt_value = grad.new_zeros(prompt_shape), grad.new_zeros(prompt_shape)
        for index, block in enumerate(layout.blocks):
            queries, keys, values, weights, prompt_keys, prompt_values = ctx.saved_tensors[
                6 * index : 6 * index + 6
            ]
            out = _gathered(grad, block.queries).index_fill_(0, block.padding, 0)
            by_bundle, by_row = block.by_bundle(out), block.by_row(out)
            over_prompt, over_row = _parts(weights, block)
            _add_up(torch.bmm(over_prompt.transpose(1, 2), by_bundle), grad_prompt_value, block)
            of_values.append(torch.bmm(over_row.transpose(1, 2), by_row).view(values.shape))
            from_prompt = torch.bmm(by_bundle, prompt_values.transpose(1, 2))
            from_row = torch.bmm(by_row, block.by_row(values).transpose(1, 2))
            grad_weights = torch.cat((from_prompt, block.by_bundle(from_row)), dim=-1)
            scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            over_prompt, over_row = _parts(scores.mul_(scale), block)
            of_query = torch.bmm(over_prompt, prompt_keys)
            block.by_row(of_query).baddbmm_(over_row, block.by_row(keys))
            of_queries.append(of_query.view(queries.shape))
            _add_up(torch.bmm(over_prompt.transpose(1, 2), block.by_bundle(queries)), grad_prompt_key, block)
            of_keys.append(torch.bmm(over_row.transpose(1, 2), block.by_row(queries)).view(keys.shape))
        return (
            _scattered(of_queries, layout.query_places, grad).view(query_shape),
            _scattered(of_keys, layout.key_places, grad).view(key_shape),
            _scattered(of_values, layout.key_places, grad).view(key_shape),
            grad_prompt_key,
            grad_prompt_value,
            None,
            None,
        )


def _gathered(stream: Tensor, places: Tensor) -> Tensor:
    """[S, heads, E] -> a block's places [n, E]."""
    return stream.reshape(-1, stream.shape[-1]).index_select(0, places)


def _scattered(blocks: list[Tensor], places: Tensor, like: Tensor) -> Tensor:
    """The way back: [S * heads, E] from the blocks' places."""
    if not blocks:
        return like.new_zeros((0, like.shape[-1]))
    return (torch.cat(blocks) if len(blocks) > 1 else blocks[0]).index_select(0, places)


def _of_bundles(prompts: Tensor, block: RowBlock) -> Tensor:
    """[G, K, P, E] -> each bundle's prompt, [B * K, P, E]."""
    return prompts.index_select(0, block.prompts).flatten(0, 1)


def _parts(weights: Tensor, block: RowBlock) -> tuple[Tensor, Tensor]:
    """[B * K, R * J * L, P + L] -> over the prompt [.., R * J * L, P], over the row [B * K * R, J * L, L]."""
    room = weights.shape[2] - block.length
    return weights[:, :, :room], block.by_row(weights)[:, :, room:]


def _add_up(bundles: Tensor, prompts: Tensor, block: RowBlock) -> None:
    """Add gradients [B * K, P, E] to their prompts' [G, K, P, E]."""
    prompts.flatten(1).addmm_(block.sharing, bundles.reshape(len(block.prompts), -1))
