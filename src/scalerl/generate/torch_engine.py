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
from scalerl.generate.prefill import Stretch, in_order, prefill, readings, run_stretches
from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.randomness import uniforms
from scalerl.generate.requests import request_from_state, request_to_state
from scalerl.generate.rows import Bools, Ints, Markers, Member, Rows
from scalerl.generate.sampling import Sampling, draw, require_exact
from scalerl.policy.head import head_logits
from scalerl.policy.inference import inference_weights, rope_turns
from scalerl.policy.lean import architecture_of
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
        self._weights = inference_weights(self._architecture, policy.weights(), largest_table=slots)
        self._device = policy.device
        self._rows = Rows(slots, 1, seed, Markers(end_token, close_thinking, interruption_phrase))
        self._cache = KVCache(self._architecture, slots, 1, self._weights.embedding)
        self._turns = rope_turns(self._architecture, 1, self._weights.embedding)
        self._grow(max_tokens, max_tokens)
        self._queue: deque[GroupRequest] = deque()
        self._started = 0  # samples of the first queued group that already have, or had, a row

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

    def step(self) -> list[Completion]:
        """Decode one token in every active slot; return what finished, ordered by (group, sample)."""
        return self.advance(self._next_in_queue(), held=np.zeros(0, dtype=np.int64))

    @torch.no_grad()
    def advance(self, starting: Sequence[Member], held: Ints) -> list[Completion]:
        """Start these completions, then decode one token of every row in use that isn't held.

        What `step` does with the queue's next; for callers that choose themselves (`loop.selective`). There
        must be a free slot for each that starts. held: rows (of `members`) that stay as they are, though
        they pass through the batch. Returns what finished, ordered by (group, sample).
        """
        if not (self._rows.count or starting):
            return []
        hidden = self._predict(starting)
        counters = self._rows.counters(held) if len(held) else []
        finished = self._sample(hidden)
        if len(held):
            self._rows.put_back(held, counters)
            finished[held] = False
        return self._take(finished) if finished.any() else []

    def members(self) -> list[tuple[int, int]]:
        """(group, sample) of each row in use, in order."""
        samples = self._rows.sample[: self._rows.count].tolist()
        return [(request.group, sample) for request, sample in zip(self._rows.requests, samples, strict=True)]

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor], policy_version: int) -> None:
        """Take new weights between two decode steps; completions in flight go on with their old KV cache.

        weights: every tensor of the model under its Hugging Face name. They are copied.
        """
        old = self._weights.embedding
        placed = {name: weight.to(device=old.device, dtype=old.dtype) for name, weight in weights.items()}
        self._weights = inference_weights(self._architecture, placed, largest_table=self._slots)
        self.policy_version = policy_version
        self._cache.prompts.forget()  # completions that start from now on start under the new weights
        if self._recompute and self._rows.count:
            self._recompute_cache()

    def state_dict(self) -> dict[str, Any]:
        """Everything in flight, as tensors, numbers and lists; the weights aren't in it."""
        return {
            "policy_version": self.policy_version,
            "rows": self._rows.state_dict(),
            "row_requests": [request_to_state(request) for request in self._rows.requests],
            "queue": [request_to_state(request) for request in self._queue],
            "started": self._started,
            "cache": self._cache.state_dict(self._rows.length[: self._rows.count]),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave, bit for bit, into an engine made alike, with its weights loaded."""
        if state["policy_version"] != self.policy_version:
            raise UserError(
                f"the engine's state is of policy version {state['policy_version']}, its weights are of "
                f"version {self.policy_version}: load the weights first"
            )
        if missing := {"room", "keys", "values", "prompt_of", "prompts"} - state.get("cache", {}).keys():
            raise UserError(
                f"the engine's state lacks {', '.join(sorted(missing))}: another version of scalerl wrote "
                "this checkpoint; finish the run with that version, or start it anew in another folder"
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
        self._grow(self._rows.longest_sequence(), state["cache"]["room"])
        self._cache.load_state_dict(state["cache"])

    def _predict(self, starting: Sequence[Member]) -> Tensor:
        """Give these completions rows; hidden states [n, D] that predict every row's next token."""
        self._make_room(starting)
        unread = self._cache.prompts.missing([request.prompt for request, _ in starting])
        reading = readings(unread, self._turns)
        decoding = [self._decoding()] if self._rows.count else []
        hidden = run_stretches(
            self._architecture, self._weights, [*decoding, *(one.stretch for one in reading)]
        )
        of_rows, of_prompts = hidden[: len(decoding)], hidden[len(decoding) :]
        self._cache.prompts.add(unread, in_order(reading, of_prompts))
        if starting:
            of_rows.append(self._start(starting))
        return torch.cat(of_rows)

    def _decoding(self) -> Stretch:
        """Every row's last token, to be fed."""
        rows, n = self._rows, self._rows.count
        last = rows.length[:n] - 1
        positions_on_host = rows.prompt_length[:n] + last
        tokens = self._on_device(rows.tokens[np.arange(n), last])
        positions = self._on_device(positions_on_host)
        return Stretch(tokens, self._turns.index_select(0, positions), self._cache.decoder(last))

    def _sample(self, hidden: Tensor) -> Bools:
        """Draw each row's next token from hidden states [n, D]; returns which rows are finished."""
        n = self._rows.count
        logits = head_logits(hidden, self._weights.weights.head, self._fp32_head).float()
        u = uniforms(self._rows.keys[:n], self._rows.length[:n])
        tokens, logprobs = draw(logits, self._on_device(u), self._sampling)
        logprobs_on_host = logprobs.cpu().numpy()
        if not np.isfinite(logprobs_on_host).all():
            raise FloatingPointError(
                f"log-probabilities under policy version {self.policy_version} aren't finite: "
                "training has diverged"
            )
        return self._rows.advance(tokens.cpu().numpy(), logprobs_on_host, self.policy_version)

    def _next_in_queue(self) -> list[Member]:
        """Take from the queue as many completions as there are free slots."""
        free = self._slots - self._rows.count
        taken: list[Member] = []
        while free and self._queue:
            request, first = self._queue[0], self._started
            until = min(len(request.budgets), first + free)
            taken += [(request, sample) for sample in range(first, until)]
            free -= until - first
            self._started = until
            if until < len(request.budgets):
                break
            self._queue.popleft()
            self._started = 0
        return taken

    def _make_room(self, starting: Sequence[Member]) -> None:
        groups = {id(request): request for request, _ in starting}.values()
        completion_room = max((self._rows.longest_completion(request) for request in groups), default=0)
        prompt_room = max((len(request.prompt) for request in groups), default=0)
        self._grow(prompt_room + completion_room, completion_room)

    def _start(self, starting: Sequence[Member]) -> Tensor:
        """Give completions, whose prompts have been read, rows; the hidden states [n, D] that start them."""
        prompts = self._cache.prompts
        places = prompts.places([request.prompt for request, _ in starting])
        first = self._rows.count
        self._rows.add(starting)
        self._cache.start(slice(first, self._rows.count), places)
        return prompts.hidden.index_select(0, self._on_device(places))

    def _take(self, finished: Bools) -> list[Completion]:
        """Take finished rows out and close the holes that they leave."""
        completions = self._rows.take(finished)
        sources, targets = self._rows.close_holes(finished)
        self._cache.move(sources, targets, left=self._rows.count)
        return completions

    def _grow(self, sequence_room: int, completion_room: int) -> None:
        self._rows.grow(completion_room)
        if completion_room > self._cache.room:
            self._cache.grow(completion_room, self._rows.count)
        if sequence_room > len(self._turns):
            self._turns = rope_turns(self._architecture, sequence_room, self._weights.embedding)

    def _recompute_cache(self) -> None:
        """Rebuild the keys and values of completions in flight under the present weights."""
        fed = [
            self._rows.sequence(row)[:-1] for row in range(self._rows.count)
        ]  # the last token is yet to be fed
        for row, read in enumerate(prefill(self._architecture, self._weights, fed, self._turns)):
            self._cache.rewrite(row, int(self._rows.prompt_length[row]), read.keys, read.values)

    def _on_device(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def generate_all(engine: TorchEngine, groups: Sequence[GroupRequest]) -> list[Completion]:
    """Submit groups and step until nothing is left; completions ordered by (group, sample)."""
    engine.submit(groups)
    completions: list[Completion] = []
    while engine.active or engine.queued:
        completions += engine.step()
    return sorted(completions, key=lambda completion: (completion.group, completion.sample))
