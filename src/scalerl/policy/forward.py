"""The training forward pass: each group's prompt once, its completions attending to it, gradients exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from scalerl.policy.lean import Architecture, architecture_of, hidden_states, rope_tables, weights_of
from scalerl.policy.load import Policy
from scalerl.policy.packing import Packing, TokenGroup, pack
from scalerl.policy.row_attention import attend_rows
from scalerl.policy.row_layout import RowLayout
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
        self._prompts = len(packing.prompt_lengths), packing.prompt_room
        self._sizes = [packing.prompt_tokens, len(packing.tokens) - packing.prompt_tokens]
        self._rows = RowLayout.of(packing, architecture.heads, architecture.kv_heads, like)

    def __call__(self, _layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query [S, H, E], key and value [S, K, E] -> [S, H * E]."""
        # split, not slices: its backward is one concatenation, not a zero-filled stream for each part
        (prompt_query, query), (prompt_key, key), (prompt_value, value) = (
            x.split(self._sizes) for x in (query, key, value)
        )
        prompt_query, prompt_key, prompt_value = (
            x.reshape(*self._prompts, *x.shape[1:]).transpose(1, 2)
            for x in (prompt_query, prompt_key, prompt_value)
        )
        grouped = query.shape[1] != key.shape[1]
        attended = F.scaled_dot_product_attention(
            prompt_query, prompt_key, prompt_value, is_causal=True, enable_gqa=grouped
        )
        of_prompts = attended.transpose(1, 2).reshape(self._sizes[0], -1)
        of_rows = attend_rows(query, key, value, prompt_key, prompt_value, self._rows, self._scale)
        return torch.cat((of_prompts, of_rows))
