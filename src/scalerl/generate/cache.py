"""The KV cache: each prompt once, and a row for every completion in flight, written in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scalerl.generate.prompts import PromptCache
from scalerl.generate.rows import Ints
from scalerl.policy.inference import halves, pairs
from scalerl.policy.lean import Architecture

# Products with less than some 400 multiplications each go through torch's plain loops on a CPU, twice as
# slow as the library's; hidden columns cost less.
_FEWEST_COLUMNS = 16


class KVCache:
    """Keys and values [layers, rows, K, room, E] of completions; a completion's token t lies in column t.

    Rows 0..n-1 are in use; row i goes on from prompt `prompt_of[i]` of `prompts`. Columns beyond a row's
    length hold leftovers of earlier rows, which the decode step's mask hides.
    """

    def __init__(self, architecture: Architecture, rows: int, room: int, like: Tensor) -> None:
        self.scale = architecture.attention_scale
        shape = (architecture.layers, rows, architecture.kv_heads, room, architecture.head_dim)
        self.keys = like.new_zeros(shape)
        self.values = like.new_zeros(shape)
        self.prompts = PromptCache(architecture, like)
        self.prompt_of: Ints = np.zeros(rows, dtype=np.int64)
        self._sharing: Sharing | None = None  # of the present rows

    @property
    def room(self) -> int:
        """Columns: the longest completion that a row can hold."""
        return self.keys.shape[3]

    def grow(self, room: int, used_rows: int) -> None:
        """Make room for longer completions, keeping the first `used_rows` rows."""
        layers, rows, heads, old_room, head_dim = self.keys.shape
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros((layers, rows, heads, room, head_dim))
            new[:, :used_rows, :, :old_room] = old[:, :used_rows]
            setattr(self, name, new)

    def start(self, rows: slice, prompts: Ints) -> None:
        """New completions in these rows go on from these prompts."""
        self.prompt_of[rows] = prompts
        self._sharing = None

    def move(self, sources: Ints, targets: Ints, left: int) -> None:
        """Copy rows `sources` onto rows `targets` (never sources); `left` rows remain."""
        if len(sources):
            self.prompt_of[targets] = self.prompt_of[sources]
            device = self.keys.device
            origin, target = torch.from_numpy(sources).to(device), torch.from_numpy(targets).to(device)
            for cache in (*self.keys, *self.values):
                cache.index_copy_(0, target, cache.index_select(0, origin))
        self.prompt_of[:left] = self.prompts.drop_unused(self.prompt_of[:left])
        self._sharing = None

    def rewrite(self, row: int, prompt_length: int, keys: Tensor, values: Tensor) -> None:
        """Replace all that a row looks at: keys and values [layers, K, prompt and completion, E]."""
        prompt, own = slice(0, prompt_length), slice(prompt_length, None)
        self.prompts.replace(int(self.prompt_of[row]), keys[:, :, prompt], values[:, :, prompt])
        columns = keys.shape[2] - prompt_length
        self.keys[:, row, :, :columns] = keys[:, :, own]
        self.values[:, row, :, :columns] = values[:, :, own]

    def decoder(self, lengths: Ints) -> DecodeAttention:
        """Attention of one decode step: row n writes column lengths[n], sees its prompt and all up to it."""
        count, device = len(lengths), self.keys.device
        if self._sharing is None:
            heads = self.keys.shape[2]
            self._sharing = Sharing.of(self.prompt_of[:count], len(self.prompts), heads, device)
        return DecodeAttention(self, self._sharing, lengths)

    def state_dict(self, lengths: Ints) -> dict[str, Any]:
        """What the rows in use hold, as tensors, keys in Hugging Face's order; `lengths`: tokens in each."""
        count, columns = len(lengths), int(lengths.max(initial=0))
        return {
            "room": self.room,
            "keys": halves(self.keys[:, :count, :, :columns]),
            "values": self.values[:, :count, :, :columns].clone(),
            "prompt_of": torch.from_numpy(self.prompt_of[:count].copy()),
            "prompts": self.prompts.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, into a cache that has the room."""
        count, columns = state["keys"].shape[1], state["keys"].shape[3]
        self.keys[:, :count, :, :columns] = pairs(state["keys"].to(self.keys.device))
        self.values[:, :count, :, :columns] = state["values"].to(self.keys.device)
        self.prompt_of[:count] = state["prompt_of"].numpy()
        self.prompts.load_state_dict(state["prompts"])
        self._sharing = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which rows share a prompt: G prompts with up to S rows each, so that a prompt's keys are read once.

    `members` [G * K * S]: the (row, head) at each place, any one where a prompt has fewer rows. `places`
    [N * K]: where each (row, head) is.
    """

    members: Tensor
    places: Tensor
    rows_per_prompt: int

    @classmethod
    def of(cls, prompt_of: Ints, prompts: int, heads: int, device: torch.device) -> Sharing:
        """From each row's prompt [N]."""
        counts = np.bincount(prompt_of, minlength=prompts)
        most = int(counts.max())
        order = np.argsort(prompt_of, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = (prompt_of[:, None] * heads + np.arange(heads)) * most + rank[:, None]
        members = np.zeros(prompts * heads * most, dtype=np.int64)
        members[places.ravel()] = np.arange(places.size)
        return cls(torch.from_numpy(members).to(device), torch.from_numpy(places.ravel()).to(device), most)


class DecodeAttention:
    """One decode step's attention, called once a layer (see policy.lean.Attend).

    A row looks at its prompt, whose keys are read once for all rows that share it, and at its own columns.
    On CPU batched products beat scaled_dot_product_attention with a mask by far at these sizes.
    """

    def __init__(self, cache: KVCache, sharing: Sharing, lengths: Ints) -> None:
        self._cache, self._sharing = cache, sharing
        heads, room = cache.keys.shape[2:4]
        self._count, self._heads, self._columns = len(lengths), heads, int(lengths.max()) + 1
        if cache.keys.dtype == torch.float32 and self._columns < _FEWEST_COLUMNS:
            self._columns = min(_FEWEST_COLUMNS, room)
        self._column = int(lengths[0]) if (lengths == lengths[0]).all() else None  # the same in all rows
        first = np.arange(len(lengths) * heads) * room + np.repeat(lengths, heads)
        self._written = torch.from_numpy(first).to(cache.keys.device)  # flat (row, head, column)
        hidden = torch.from_numpy(np.arange(self._columns) > np.repeat(lengths, heads)[:, None])
        mask = cache.keys.new_zeros(hidden.shape)
        self._mask = mask.masked_fill_(hidden.to(mask.device), -torch.inf).unsqueeze(1)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query [N, H, E], key and value [N, K, E] -> [N, H * E]."""
        cache, prompts = self._cache, self._cache.prompts
        own_keys, own_values = self._write(cache.keys[layer], key), self._write(cache.values[layer], value)
        query = query.reshape(self._count * self._heads, -1, query.shape[-1])
        prompt_keys, prompt_values = prompts.keys[layer].flatten(0, 1), prompts.values[layer].flatten(0, 1)
        own = torch.baddbmm(self._mask, query, own_keys.transpose(1, 2), alpha=cache.scale)
        shared = torch.baddbmm(
            prompts.mask, self._by_prompt(query), prompt_keys.transpose(1, 2), alpha=cache.scale
        )
        weights = torch.cat((self._by_row(shared, query.shape[1]), own), dim=-1).softmax(dim=-1)
        room = shared.shape[-1]
        # gathered whole, then cut: rows that lie apart are gathered far more slowly
        over_prompts = self._by_prompt(weights)[:, :, :room]
        attended = self._by_row(torch.bmm(over_prompts, prompt_values), query.shape[1])
        return torch.baddbmm(attended, weights[:, :, room:], own_values).view(self._count, -1)

    def _by_prompt(self, x: Tensor) -> Tensor:
        """[N * K, H / K, C] -> [G * K, S * H / K, C]: each prompt's rows together."""
        gathered = x.flatten(1).index_select(0, self._sharing.members)
        return gathered.view(-1, self._sharing.rows_per_prompt * x.shape[1], x.shape[2])

    def _by_row(self, x: Tensor, queries_per_key: int) -> Tensor:
        """The way back: [G * K, S * H / K, C] -> [N * K, H / K, C]."""
        by_place = x.view(len(self._sharing.members), queries_per_key * x.shape[2])
        return by_place.index_select(0, self._sharing.places).view(-1, queries_per_key, x.shape[2])

    def _write(self, cache: Tensor, new: Tensor) -> Tensor:
        """Write new [N, K, E] in place; the columns in use, [N * K, columns, E], a view."""
        rows, heads, room, head_dim = cache.shape
        if self._column is None:
            cache.view(-1, head_dim).index_copy_(0, self._written, new.reshape(-1, head_dim))
        else:
            cache[: self._count, :, self._column] = new
        return cache.view(rows * heads, room, head_dim)[: len(self._written), : self._columns]
