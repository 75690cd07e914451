"""The KV cache: a fixed number of rows, preallocated, written in place, kept compact."""

from __future__ import annotations

import torch
from torch import Tensor

from scalerl.policy.lean import Architecture


class KVCache:
    """Keys and values [layers, rows, K, room, E]; position p of a row's sequence lies in column p.

    Rows 0..n-1 are in use. Columns beyond a row's length hold leftovers of earlier rows, which the mask
    hides.
    """

    def __init__(self, architecture: Architecture, rows: int, room: int, like: Tensor) -> None:
        self._architecture = architecture
        shape = (architecture.layers, rows, architecture.kv_heads, room, architecture.head_dim)
        self.keys = like.new_zeros(shape)
        self.values = like.new_zeros(shape)

    @property
    def room(self) -> int:
        """Columns: the longest sequence that a row can hold."""
        return self.keys.shape[3]

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

    def move(self, sources: Tensor, targets: Tensor, columns: int) -> None:
        """Copy the first `columns` columns of rows `sources` onto rows `targets` (never sources)."""
        self.keys[:, targets, :, :columns] = self.keys[:, sources, :, :columns]
        self.values[:, targets, :, :columns] = self.values[:, sources, :, :columns]

    def write_prefix(self, rows: slice, keys: Tensor, values: Tensor) -> None:
        """Put prefixes [layers, n, K, P, E] into the first P columns of n rows."""
        columns = keys.shape[3]
        self.keys[:, rows, :, :columns] = keys
        self.values[:, rows, :, :columns] = values

    def decoder(self, positions: Tensor, columns: int) -> DecodeAttention:
        """Attention of one decode step: row n, for n < N, writes column positions[n] and sees all up to it.

        columns: max(positions) + 1.
        """
        return DecodeAttention(self, positions, columns)


class DecodeAttention:
    """One decode step's attention, called once a layer (see policy.lean.Attend).

    On CPU two batched products beat scaled_dot_product_attention with a mask by 1.5 to 4 times at these
    sizes.
    """

    def __init__(self, cache: KVCache, positions: Tensor, columns: int) -> None:
        self._cache = cache
        self._columns = columns
        self._scale = cache._architecture.attention_scale
        self._count = positions.shape[0]
        heads, room = cache.keys.shape[2:4]
        every = torch.arange(self._count * heads, device=positions.device)
        last = positions.repeat_interleave(heads)
        self._written = every * room + last  # flat (row, head, column) of the new keys and values
        hidden = torch.arange(columns, device=positions.device) > last.unsqueeze(1)
        mask = torch.zeros(hidden.shape, dtype=cache.keys.dtype, device=positions.device)
        self._mask = mask.masked_fill_(hidden, -torch.inf).unsqueeze(1)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query [N, H, E], key and value [N, K, E] -> [N, H * E]."""
        count, heads, head_dim = query.shape
        keys = self._write(self._cache.keys[layer], key)
        values = self._write(self._cache.values[layer], value)
        grouped = query.reshape(keys.shape[0], -1, head_dim)
        scores = torch.baddbmm(self._mask, grouped, keys.transpose(1, 2), alpha=self._scale)
        return torch.bmm(scores.softmax(dim=-1), values).view(count, heads * head_dim)

    def _write(self, cache: Tensor, new: Tensor) -> Tensor:
        """Write new [N, K, E] in place; the columns in use, [N * K, columns, E], a view."""
        rows, heads, room, head_dim = cache.shape
        cache.view(-1, head_dim).index_copy_(0, self._written, new.reshape(-1, head_dim))
        return cache.view(rows * heads, room, head_dim)[: self._count * heads, : self._columns]
