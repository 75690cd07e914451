"""The embedded engine: continuous batching in plain torch, over the weights of a Hugging Face model.

Each group's prompt goes through the model once; a finished completion's row is free for the next one at the
next step; rows in use are kept compact, so finished ones cost nothing. New weights may come between any two
steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scalerl.errors import UserError
from scalerl.generate.cache import KVCache
from scalerl.generate.prefill import Prefix, prefill
from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.randomness import uniforms
from scalerl.generate.requests import request_from_state, request_to_state
from scalerl.generate.rows import Bools, Markers, Rows
from scalerl.generate.sampling import Sampling, draw, require_exact
from scalerl.policy.head import head_logits
from scalerl.policy.lean import architecture_of, hidden_states, rope_tables, weights_of
from scalerl.policy.load import Policy


class TorchEngine:
    """Implements `generate.protocol.Engine`; its weights are its own copy, changed by `load_weights` only.

    slots: completions decoded together. max_tokens: prompt and completion together, where known (else the
    room grows as longer requests come). seed: with group, sample and position it determines every draw.
    close_thinking: the tokens that end thinking. interruption_phrase: appended, unsampled, to thinking that
    exceeds its budget; None: no interruption. recompute_kv_on_update: rebuild the cache of completions in
    flight under new weights (off: it stays, stale). evaluation: allows a `sampling` other than temperature 1
    and full support.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        slots: int,
        seed: int,
        end_token: int,
        close_thinking: tuple[int, ...] = (),
        interruption_phrase: tuple[int, ...] | None = None,
        fp32_head: bool = True,
        max_tokens: int = 0,
        recompute_kv_on_update: bool = False,
        policy_version: int = 0,
        sampling: Sampling | None = None,
        evaluation: bool = False,
    ) -> None:
        if slots < 1:
            raise UserError(f"slots {slots}: give at least 1")
        self._sampling = sampling or Sampling()
        if not evaluation:
            require_exact(self._sampling)
        self.policy_version = policy_version
        self._slots = slots
        self._fp32_head = fp32_head
        self._recompute = recompute_kv_on_update
        self._architecture = architecture_of(policy.model)
        self._weights = weights_of(self._architecture, policy.weights(), copied=True)
        self._device = policy.device
        self._rows = Rows(slots, 1, seed, Markers(end_token, close_thinking, interruption_phrase))
        self._cache = KVCache(self._architecture, slots, 1, self._weights.embedding)
        self._grow(max(max_tokens, 2), max_tokens)
        self._queue: deque[GroupRequest] = deque()
        self._started = 0  # samples of the first queued group that already have, or had, a row
        self._prefix: Prefix | None = None  # of that group, when it has started

    @property
    def active(self) -> int:
        """Completions being decoded."""
        return self._rows.count

    @property
    def queued(self) -> int:
        """Completions submitted and not yet in a slot."""
        return sum(len(request.budgets) for request in self._queue) - self._started

    def submit(self, groups: Sequence[GroupRequest]) -> None:
        """Queue groups, in order; slots are filled from the queue before the next decode step."""
        for request in groups:
            if not request.prompt:
                raise UserError(f"prompt {request.prompt_id!r} has no tokens; give at least one")
            if not request.budgets:
                raise UserError(f"group {request.group} asks for no completions; give at least one budget")
        self._queue.extend(groups)

    @torch.no_grad()
    def step(self) -> list[Completion]:
        """Decode one token in every active slot; return what finished, ordered by (group, sample)."""
        hidden = self._decode() if self._rows.count else None
        fresh = self._admit()
        if hidden is None and not fresh:
            return []
        if fresh:
            started = torch.stack(fresh)
            hidden = started if hidden is None else torch.cat((hidden, started))
        assert hidden is not None
        finished = self._sample(hidden)
        if not finished.any():
            return []
        completions = self._rows.take(finished)
        sources, targets = self._rows.close_holes(finished)
        if len(sources):
            self._cache.move(self._on_device(sources), self._on_device(targets))
        return completions

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor], policy_version: int) -> None:
        """Take new weights between two decode steps; completions in flight go on with their old KV cache.

        weights: every tensor of the model under its Hugging Face name. They are copied.
        """
        old = self._weights.embedding
        placed = {name: weight.to(device=old.device, dtype=old.dtype) for name, weight in weights.items()}
        self._weights = weights_of(self._architecture, placed, copied=True)
        self.policy_version = policy_version
        self._prefix = None  # completions that start from now on start under the new weights
        if self._recompute and self._rows.count:
            self._recompute_cache()

    def state_dict(self) -> dict[str, Any]:
        """Everything in flight, as tensors, numbers and lists; the weights aren't in it."""
        n = self._rows.count
        columns = int((self._rows.prompt_length + self._rows.length)[:n].max()) if n else 0
        prefix = self._prefix
        return {
            "policy_version": self.policy_version,
            "rows": self._rows.state_dict(),
            "row_requests": [request_to_state(request) for request in self._rows.requests],
            "queue": [request_to_state(request) for request in self._queue],
            "started": self._started,
            "prefix": None
            if prefix is None
            else [x.clone() for x in (prefix.keys, prefix.values, prefix.hidden)],
            "room": self._cache.room,
            "keys": self._cache.keys[:, :n, :, :columns].clone(),
            "values": self._cache.values[:, :n, :, :columns].clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, bit for bit, into an engine made alike, with its weights loaded."""
        if state["policy_version"] != self.policy_version:
            raise UserError(
                f"the engine's state is of policy version {state['policy_version']}, its weights are of "
                f"version {self.policy_version}: load the weights first"
            )
        count = state["rows"]["count"]
        if count > self._slots:
            raise UserError(
                f"the engine's state has {count} completions in flight, {self._slots} slots are too few"
            )
        requests = [request_from_state(request) for request in state["row_requests"]]
        self._rows.load_state_dict(state["rows"], requests)
        self._queue = deque(request_from_state(request) for request in state["queue"])
        self._started = state["started"]
        prefix = state["prefix"]
        self._prefix = None if prefix is None else Prefix(*(tensor.to(self._device) for tensor in prefix))
        self._grow(state["room"], 0)
        rows, columns = slice(0, count), slice(0, state["keys"].shape[3])
        self._cache.keys[:, rows, :, columns] = state["keys"].to(self._device)
        self._cache.values[:, rows, :, columns] = state["values"].to(self._device)
        for row in range(count):  # the last token is yet to be fed
            self._cache.show(
                slice(row, row + 1), int(self._rows.prompt_length[row] + self._rows.length[row]) - 1
            )

    def _decode(self) -> Tensor:
        """Feed every row its last token: hidden states [n, D] that predict the next."""
        rows, n = self._rows, self._rows.count
        last = rows.length[:n] - 1
        positions_on_host = rows.prompt_length[:n] + last
        tokens = self._on_device(rows.tokens[np.arange(n), last])
        positions = self._on_device(positions_on_host)
        attend = self._cache.decoder(positions_on_host)
        cos, sin = self._cos[positions], self._sin[positions]
        return hidden_states(self._architecture, self._weights, tokens, cos, sin, attend)

    def _sample(self, hidden: Tensor) -> Bools:
        """Draw each row's next token from hidden states [n, D]; returns which rows are finished."""
        n = self._rows.count
        logits = head_logits(hidden, self._weights.head, self._fp32_head).float()
        u = uniforms(self._rows.keys[:n], self._rows.length[:n])
        tokens, logprobs = draw(logits, self._on_device(u), self._sampling)
        logprobs_on_host = logprobs.cpu().numpy()
        if not np.isfinite(logprobs_on_host).all():
            raise FloatingPointError(
                f"log-probabilities under policy version {self.policy_version} aren't finite: "
                "training has diverged"
            )
        return self._rows.advance(tokens.cpu().numpy(), logprobs_on_host, self.policy_version)

    def _admit(self) -> list[Tensor]:
        """Move waiting completions into free rows; returns the hidden state [D] that starts each of them."""
        free = self._slots - self._rows.count
        taken: list[tuple[GroupRequest, int, int]] = []  # request, its samples from, to
        while free and self._queue:
            request, first = self._queue[0], self._started
            until = min(len(request.budgets), first + free)
            taken.append((request, first, until))
            free -= until - first
            self._started = until
            if until < len(request.budgets):
                break
            self._queue.popleft()
            self._started = 0
        return self._start(taken) if taken else []

    def _start(self, taken: list[tuple[GroupRequest, int, int]]) -> list[Tensor]:
        """Give the taken samples rows, filled with their prompts' keys and values."""
        known = [self._prefix] if self._prefix is not None else []
        new = [request.prompt for request, _, _ in taken[len(known) :]]
        prefixes = known + prefill(self._architecture, self._weights, new)
        self._prefix = prefixes[-1] if self._started else None
        completion_room = max(self._rows.longest_completion(request) for request, _, _ in taken)
        self._grow(max(len(request.prompt) for request, _, _ in taken) + completion_room, completion_room)
        hidden: list[Tensor] = []
        for (request, first, until), prefix in zip(taken, prefixes, strict=True):
            rows = slice(self._rows.count, self._rows.count + until - first)
            self._rows.add([(request, sample) for sample in range(first, until)])
            self._cache.write_prefix(rows, prefix.keys.unsqueeze(1), prefix.values.unsqueeze(1))
            hidden += [prefix.hidden] * (until - first)
        return hidden

    def _grow(self, sequence_room: int, completion_room: int) -> None:
        self._rows.grow(completion_room)
        if sequence_room > self._cache.room:
            self._cache.grow(sequence_room, self._rows.count)
            self._cos, self._sin = rope_tables(self._architecture, sequence_room, self._weights.embedding)

    def _recompute_cache(self) -> None:
        """Rebuild the keys and values of completions in flight under the present weights."""
        fed = [
            self._rows.sequence(row)[:-1] for row in range(self._rows.count)
        ]  # the last token is yet to be fed
        for row, prefix in enumerate(prefill(self._architecture, self._weights, fed)):
            self._cache.write_prefix(
                slice(row, row + 1), prefix.keys.unsqueeze(1), prefix.values.unsqueeze(1)
            )

    def _on_device(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def generate_all(engine: TorchEngine, groups: Sequence[GroupRequest]) -> list[Completion]:
    """Submit groups and step until nothing is left; completions ordered by (group, sample)."""
    engine.submit(groups)
    completions: list[Completion] = []
    while engine.active or engine.queued:
        completions += engine.step()
    return sorted(completions, key=lambda completion: (completion.group, completion.sample))
