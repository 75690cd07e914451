"""The prompts' keys and values: each read once and kept once, for all completions that go on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scalerl.generate.prefill import Prefix
from scalerl.generate.rows import Ints
from scalerl.policy.inference import halves, pairs
from scalerl.policy.lean import Architecture

Prompt = tuple[int, ...]


class PromptCache:
    """Keys and values [layers, G, K, P, E] of G prompts, padded on the right to P; last hidden states [G, D].

    `mask` [G * K, 1, P] hides the padding (0 at tokens, -inf elsewhere).
    """

    def __init__(self, architecture: Architecture, like: Tensor) -> None:
        shape = (architecture.layers, 0, architecture.kv_heads, 0, architecture.head_dim)
        self.keys = like.new_zeros(shape)
        self.values = like.new_zeros(shape)
        self.hidden = like.new_zeros((0, like.shape[1]))
        self.mask = like.new_zeros((0, 1, 0))
        self._prompts: list[Prompt | None] = []  # None: read under weights that aren't the present ones
        self._lengths: Ints = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._prompts)

    def missing(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Those that haven't been read under the present weights, each once, in order."""
        known = set(self._prompts)
        return [prompt for prompt in dict.fromkeys(prompts) if prompt not in known]

    def places(self, prompts: Sequence[Prompt]) -> Ints:
        """Indices of these prompts, which have all been read under the present weights."""
        place = {prompt: index for index, prompt in enumerate(self._prompts) if prompt is not None}
        return np.array([place[prompt] for prompt in prompts], dtype=np.int64)

    def add(self, prompts: Sequence[Prompt], prefixes: Sequence[Prefix]) -> None:
        """Keep what was read of prompts, behind the others."""
        if not prompts:
            return
        self._prompts += prompts
        self._lengths = np.append(self._lengths, [prefix.keys.shape[2] for prefix in prefixes])
        room = int(self._lengths.max())
        self.keys = _appended(self.keys, [prefix.keys for prefix in prefixes], room)
        self.values = _appended(self.values, [prefix.values for prefix in prefixes], room)
        self.hidden = torch.cat((self.hidden, *(prefix.hidden[None] for prefix in prefixes)))
        self._hide_padding()

    def drop_unused(self, used: Ints) -> Ints:
        """Forget prompts that no completion uses, when they are half of all; returns the indices' new values.

        used: the indices in use, one for each completion.
        """
        in_use = np.zeros(len(self), dtype=np.bool_)
        in_use[used] = True
        if 2 * in_use.sum() > len(self):
            return used
        kept = np.flatnonzero(in_use)
        self._prompts = [self._prompts[index] for index in kept]
        self._lengths = self._lengths[kept]
        room = int(self._lengths.max(initial=0))
        on_device = torch.from_numpy(kept).to(self.keys.device)
        self.keys = self.keys.index_select(1, on_device)[:, :, :, :room].contiguous()
        self.values = self.values.index_select(1, on_device)[:, :, :, :room].contiguous()
        self.hidden = self.hidden.index_select(0, on_device)
        self._hide_padding()
        return (in_use.cumsum() - 1)[used]

    def forget(self) -> None:
        """The weights have changed: completions that start from now on have their prompts read again."""
        self._prompts = [None] * len(self)

    def replace(self, index: int, keys: Tensor, values: Tensor) -> None:
        """Put new keys and values [layers, K, length, E] in a prompt's place."""
        self.keys[:, index, :, : keys.shape[2]] = keys
        self.values[:, index, :, : values.shape[2]] = values

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors and lists, keys in Hugging Face's order."""
        return {
            "prompts": [None if prompt is None else list(prompt) for prompt in self._prompts],
            "lengths": torch.from_numpy(self._lengths.copy()),
            "keys": halves(self.keys),
            "values": self.values.clone(),
            "hidden": self.hidden.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._prompts = [None if prompt is None else tuple(prompt) for prompt in state["prompts"]]
        self._lengths = state["lengths"].numpy().copy()
        self.keys, self.values, self.hidden = (
            state[name].to(self.keys) for name in ("keys", "values", "hidden")
        )
        self.keys = pairs(self.keys)
        self._hide_padding()

    def _hide_padding(self) -> None:
        room, heads = self.keys.shape[3], self.keys.shape[2]
        hidden = torch.from_numpy(np.arange(room) >= self._lengths[:, None]).to(self.keys.device)
        mask = self.keys.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        self.mask = mask.repeat_interleave(heads, 0).unsqueeze(1)


def _appended(old: Tensor, new: Sequence[Tensor], room: int) -> Tensor:
    """[layers, G, K, P, E] and more [layers, K, length, E] behind it, all padded to `room`."""
    layers, count, heads, old_room, head_dim = old.shape
    together = old.new_zeros((layers, count + len(new), heads, room, head_dim))
    together[:, :count, :, :old_room] = old
    for index, tensor in enumerate(new, count):
        together[:, index, :, : tensor.shape[2]] = tensor
    return together
