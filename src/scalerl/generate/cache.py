"""The KV cache: a fixed number of rows, preallocated, written in place, kept compact."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from scalerl.generate.rows import Ints
from scalerl.policy.lean import Architecture


class KVCache:
    """Keys and values [layers, rows, K, room, E]; position p of a row's sequence lies in column p.

    Rows 0..n-1 are in use. Columns beyond a row's length hold leftovers of earlier rows; `mask` [rows * K,
    room] (0 where a row may look, -inf elsewhere) hides them.
    """

    def __init__(self, architecture: Architecture, rows: int, room: int, like: Tensor) -> None:
        self.scale = architecture.attention_scale
        shape = (architecture.layers, rows, architecture.kv_heads, room, architecture.head_dim)
        self.keys = like.new_zeros(shape)
        self.values = like.new_zeros(shape)
        self.mask = like.new_full((rows * architecture.kv_heads, room), -torch.inf)

    @property
    def room(self) -> int:
        """Columns: the longest sequence that a row can hold."""
        return self.keys.shape[3]

    @property
    def heads(self) -> int:
        """K, the key heads."""
        return self.keys.shape[2]

    def grow(self, room: int, used_rows: int) -> None:
        """Make room for longer sequences, keeping the first `used_rows` rows."""
        if room <= self.room:
            return
        layers, rows, heads, old_room, head_dim = self.keys.shape
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros((layers, rows, heads, room, head_dim))
            new[:, :used_rows, :, :old_room] = old[:, :used_rows]
            setattr(self, name, new)
        mask = self.mask.new_full((rows * heads, room), -torch.inf)
        mask[:, :old_room] = self.mask
        self.mask = mask

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows `sources` onto rows `targets` (never sources)."""
        by_row = self.mask.view(self.keys.shape[1], -1)
        for cache in (*self.keys, *self.values, by_row):
            cache.index_copy_(0, targets, cache.index_select(0, sources))

    def write_prefix(self, rows: slice, keys: Tensor, values: Tensor) -> None:
        """Start n rows with prefixes [layers, n or 1, K, P, E]: they may look at these P columns."""
        columns = keys.shape[3]
        self.keys[:, rows, :, :columns] = keys
        self.values[:, rows, :, :columns] = values
        self.show(rows, columns)

    def show(self, rows: slice, columns: int) -> None:
        """Let rows look at their first `columns` columns and no further."""
        mask = self.mask[rows.start * self.heads : rows.stop * self.heads]
        mask[:, :columns] = 0
        mask[:, columns:] = -torch.inf

    def decoder(self, positions: Ints) -> DecodeAttention:
        """Attention of one decode step: row n writes column positions[n] and sees all up to it."""
        first = np.arange(len(positions) * self.heads) * self.room
        flat = torch.from_numpy(first + np.repeat(positions, self.heads)).to(self.keys.device)
        self.mask.view(-1).index_fill_(0, flat, 0.0)
        return DecodeAttention(self, flat, int(positions.max()) + 1)


class DecodeAttention:
    """One decode step's attention, called once a layer (see policy.lean.Attend).

    On CPU two batched products beat scaled_dot_product_attention with a mask by 1.5 to 4 times at these
    sizes.
    """

    def __init__(self, cache: KVCache, written: Tensor, columns: int) -> None:
        self._cache = cache
        self._written = written  # flat (row, head, column) of the new keys and values
        self._columns = columns  # the columns that any row looks at
        self._mask = cache.mask[: len(written), None, :columns]

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query [N, H, E], key and value [N, K, E] -> [N, H * E]."""
        count, heads, head_dim = query.shape
        keys = self._write(self._cache.keys[layer], key)
        values = self._write(self._cache.values[layer], value)
        grouped = query.reshape(keys.shape[0], -1, head_dim)
        scores = torch.baddbmm(self._mask, grouped, keys.transpose(1, 2), alpha=self._cache.scale)
        return torch.bmm(scores.softmax(dim=-1), values).view(count, heads * head_dim)

    def _write(self, cache: Tensor, new: Tensor) -> Tensor:
        """Write new [N, K, E] in place; the columns in use, [N * K, columns, E], a view."""
        rows, heads, room, head_dim = cache.shape
        cache.view(-1, head_dim).index_copy_(0, self._written, new.reshape(-1, head_dim))
        return cache.view(rows * heads, room, head_dim)[: len(self._written), : self._columns]
