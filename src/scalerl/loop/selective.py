"""An engine of which only some completions take a token at a time: many virtual devices decoded as one batch.

Devices of a simulated cluster are at different moments. Those whose next token is due and whose weights are
equal are decoded together. Completions of other devices are held: they pass through the batch, unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scalerl.generate.prefill import Prefix, prefill
from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.rows import Bools
from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.device import Member

# What a token changes in a row, apart from the token itself: put back for rows that are held.
_COUNTERS = ("length", "thinking_count", "answer_count", "closed", "interrupted", "forced")


class SelectiveEngine(TorchEngine):
    """A `TorchEngine` whose caller says which completions start, and which decode their next token.

    Its slots must hold all completions that are ever in flight together; its queue stays empty.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unstarted: dict[int, int] = {}  # groups of which some have started -> how many haven't
        self._prefixes: dict[int, Prefix] = {}  # of those groups, under the present weights

    @torch.no_grad()
    def decode(
        self, starting: Sequence[tuple[GroupRequest, int]], held: Collection[Member]
    ) -> list[Completion]:
        """Start these (request, sample), then decode one token of every completion that isn't held.

        starting: samples of one group one after the other. Returns what finished, ordered by (group, sample).
        """
        hidden = [self._decode()] if self._rows.count else []
        keep = self._held_rows(held)
        hidden += self._start_members(starting)
        if not hidden:
            return []
        counters = {name: getattr(self._rows, name)[keep].copy() for name in _COUNTERS}
        finished = self._sample(torch.cat(hidden))
        for name, values in counters.items():
            getattr(self._rows, name)[keep] = values
        finished[keep] = False
        return self._leave(finished) if finished.any() else []

    def load_weights(self, weights: Mapping[str, Tensor], policy_version: int) -> None:
        """Take new weights; prompts of members that are yet to start are read again under them."""
        super().load_weights(weights, policy_version)
        self._prefixes = {}

    def state_dict(self) -> dict[str, Any]:
        """Everything in flight, the prompts' keys and values of members yet to start included."""
        prefixes = [
            {"group": group, "tensors": [x.clone() for x in (p.keys, p.values, p.hidden)]}
            for group, p in self._prefixes.items()
        ]
        unstarted = [list(item) for item in self._unstarted.items()]
        return {**super().state_dict(), "unstarted": unstarted, "prefixes": prefixes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        super().load_state_dict(state)
        self._unstarted = dict(state["unstarted"])
        self._prefixes = {
            row["group"]: Prefix(*(tensor.to(self._device) for tensor in row["tensors"]))
            for row in state["prefixes"]
        }

    def _held_rows(self, held: Collection[Member]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Rows in use whose completion is held."""
        if not held:
            return np.zeros(0, dtype=np.int64)
        rows, samples = self._rows, self._rows.sample[: self._rows.count].tolist()
        pairs = zip(rows.requests, samples, strict=True)
        held_rows = [row for row, (request, sample) in enumerate(pairs) if (request.group, sample) in held]
        return np.array(held_rows, dtype=np.int64)

    def _start_members(self, starting: Sequence[tuple[GroupRequest, int]]) -> list[Tensor]:
        """Give members rows with their prompts' keys and values; the hidden states [n, D] that start them."""
        runs = [list(run) for _, run in groupby(starting, key=lambda pair: pair[0].group)]
        new = [run[0][0] for run in runs if run[0][0].group not in self._prefixes]
        read = prefill(self._architecture, self._weights, [request.prompt for request in new])
        for request, prefix in zip(new, read, strict=True):
            self._prefixes[request.group] = prefix
        for run in runs:
            room = self._rows.longest_completion(run[0][0])
            self._grow(len(run[0][0].prompt) + room, room)
        return [self._start_run(run) for run in runs]

    def _start_run(self, run: list[tuple[GroupRequest, int]]) -> Tensor:
        request = run[0][0]
        prefix = self._prefixes[request.group]
        left = self._unstarted.pop(request.group, len(request.budgets)) - len(run)
        if left:
            self._unstarted[request.group] = left
        else:
            del self._prefixes[request.group]
        rows = slice(self._rows.count, self._rows.count + len(run))
        self._rows.add(run)
        self._cache.write_prefix(rows, prefix.keys.unsqueeze(1), prefix.values.unsqueeze(1))
        return prefix.hidden.expand(len(run), -1)

    def _leave(self, finished: Bools) -> list[Completion]:
        """Take finished rows out and close the holes that they leave."""
        completions = self._rows.take(finished)
        sources, targets = self._rows.close_holes(finished)
        if len(sources):
            self._cache.move(self._on_device(sources), self._on_device(targets))
        return completions
