"""What each row of the batch is doing: its tokens so far, its budgets, whether it is being interrupted.

All on the host, as numpy arrays over rows 0..count-1, updated for all rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.randomness import stream_keys

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Member = tuple[GroupRequest, int]
"""A completion: its group's request and its sample's index."""

# name -> (type, whether it has a column for each token)
_FIELDS: dict[str, tuple[type, bool]] = {
    "tokens": (np.int64, True),
    "logprobs": (np.float32, True),
    "versions": (np.int64, True),
    "sampled": (np.bool_, True),
    "length": (np.int64, False),
    "prompt_length": (np.int64, False),
    "sample": (np.int64, False),
    "max_thinking": (np.int64, False),
    "max_answer": (np.int64, False),
    "thinking_count": (np.int64, False),  # sampled before thinking closed, the closing tokens included
    "answer_count": (np.int64, False),  # sampled after it
    "closed": (np.bool_, False),
    "interrupted": (np.bool_, False),
    "forced": (np.int64, False),  # index of the phrase's token that comes next; -1 when sampling
}

# what a token changes in a row, apart from the token itself
_COUNTERS = ("length", "thinking_count", "answer_count", "closed", "interrupted", "forced")


@dataclass(frozen=True, slots=True)
class Markers:
    """The tokens that steer a completion."""

    end_token: int
    close_thinking: tuple[int, ...]
    phrase: tuple[int, ...] | None  # None: no interruption, a hard stop at the sum of the budgets


class Rows:
    """The rows in use. Row i belongs to sample `sample[i]` of `requests[i]`."""

    tokens: Ints
    logprobs: npt.NDArray[np.float32]
    versions: Ints
    sampled: Bools
    length: Ints
    prompt_length: Ints
    sample: Ints
    max_thinking: Ints
    max_answer: Ints
    thinking_count: Ints
    answer_count: Ints
    closed: Bools
    interrupted: Bools
    forced: Ints

    def __init__(self, slots: int, room: int, seed: int, markers: Markers) -> None:
        self._markers = markers
        self._seed = seed
        self._phrase = np.array(markers.phrase or (0,), dtype=np.int64)
        self._close = np.array(markers.close_thinking, dtype=np.int64)
        self.count = 0
        self.requests: list[GroupRequest] = []
        for name, (kind, per_token) in _FIELDS.items():
            setattr(self, name, np.zeros((slots, room) if per_token else slots, dtype=kind))
        self.keys = np.zeros(slots, dtype=np.uint64)

    def grow(self, room: int) -> None:
        """Make room for completions of up to `room` tokens."""
        extra = room - self.tokens.shape[1]
        if extra > 0:
            for name, (_, per_token) in _FIELDS.items():
                if per_token:
                    setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, extra))))

    def longest_completion(self, request: GroupRequest) -> int:
        """Tokens that the longest completion of this request can have, the phrase included."""
        phrase = len(self._markers.phrase or ())
        return max(b.max_thinking_tokens + b.max_answer_tokens for b in request.budgets) + phrase

    def add(self, pairs: Sequence[Member]) -> None:
        """Start these (request, sample) pairs in rows count, count + 1, ..."""
        new = slice(self.count, self.count + len(pairs))
        budgets = [request.budgets[sample] for request, sample in pairs]
        for name in ("length", "thinking_count", "answer_count", "closed"):
            getattr(self, name)[new] = 0
        self.prompt_length[new] = [len(request.prompt) for request, _ in pairs]
        self.sample[new] = [sample for _, sample in pairs]
        self.max_thinking[new] = [budget.max_thinking_tokens for budget in budgets]
        self.max_answer[new] = [budget.max_answer_tokens for budget in budgets]
        self.interrupted[new] = (self.max_thinking[new] == 0) & (self._markers.phrase is not None)
        self.forced[new] = np.where(self.interrupted[new], 0, -1)
        groups = np.array([request.group for request, _ in pairs], dtype=np.int64)
        self.keys[new] = stream_keys(self._seed, groups, self.sample[new])
        self.requests += [request for request, _ in pairs]
        self.count += len(pairs)

    def advance(self, drawn: Ints, logprobs: npt.NDArray[np.float32], version: int) -> Bools:
        """Append the drawn token, or the phrase's next, to every row; returns which rows are finished."""
        n = self.count
        rows = np.arange(n)
        forced = self.forced[:n] >= 0
        token = np.where(forced, self._phrase[self.forced[:n]], drawn)
        column = self.length[:n]
        self.tokens[rows, column] = token
        self.logprobs[rows, column] = np.where(forced, np.float32(0), logprobs)
        self.versions[rows, column] = version
        self.sampled[rows, column] = ~forced
        self.length[:n] += 1
        self.thinking_count[:n] += ~forced & ~self.closed[:n]
        self.answer_count[:n] += ~forced & self.closed[:n]
        stopped = ~forced & (token == self._markers.end_token)
        self._steer(forced, stopped)
        return stopped | self._exhausted()

    def counters(self, rows: Ints) -> list[Ints | Bools]:
        """What `advance` will change in these rows, to be put back."""
        return [getattr(self, name)[rows] for name in _COUNTERS]

    def put_back(self, rows: Ints, counters: Sequence[Ints | Bools]) -> None:
        """Undo these rows' last `advance`."""
        for name, values in zip(_COUNTERS, counters, strict=True):
            getattr(self, name)[rows] = values

    def take(self, finished: Bools) -> list[Completion]:
        """The finished rows' completions, ordered by (group, sample)."""
        completions = [self._completion(int(row)) for row in np.flatnonzero(finished)]
        return sorted(completions, key=lambda completion: (completion.group, completion.sample))

    def close_holes(self, finished: Bools) -> tuple[Ints, Ints]:
        """Drop finished rows: the last rows move into the holes. Returns (sources, targets) of the moves."""
        kept = self.count - int(finished.sum())
        targets = np.flatnonzero(finished[:kept])
        sources = kept + np.flatnonzero(~finished[kept:])
        for name in _FIELDS:
            array = getattr(self, name)
            array[targets] = array[sources]
        self.keys[targets] = self.keys[sources]
        for source, target in zip(sources, targets, strict=True):
            self.requests[target] = self.requests[source]
        del self.requests[kept:]
        self.count = kept
        return sources, targets

    def longest_sequence(self) -> int:
        """Tokens that the longest sequence in use can come to, its prompt included."""
        return max((len(r.prompt) + self.longest_completion(r) for r in self.requests), default=0)

    def sequence(self, row: int) -> list[int]:
        """The row's prompt and its tokens so far."""
        return [*self.requests[row].prompt, *self.tokens[row, : self.length[row]].tolist()]

    def state_dict(self) -> dict[str, Any]:
        """Rows in use, as tensors; the requests are the engine's to keep."""
        state = {name: torch.from_numpy(getattr(self, name)[: self.count].copy()) for name in _FIELDS}
        return {**state, "count": self.count, "room": self.tokens.shape[1]}

    def load_state_dict(self, state: Mapping[str, Any], requests: list[GroupRequest]) -> None:
        """Restore rows; requests[i] is row i's."""
        self.count = state["count"]
        self.grow(state["room"])
        self.requests = requests
        for name in _FIELDS:
            saved = state[name].numpy()
            if saved.ndim == 2:
                getattr(self, name)[: self.count, : saved.shape[1]] = saved
            else:
                getattr(self, name)[: self.count] = saved
        groups = np.array([request.group for request in requests], dtype=np.int64)
        self.keys[: self.count] = stream_keys(self._seed, groups, self.sample[: self.count])

    def _steer(self, forced: Bools, stopped: Bools) -> None:
        """Close thinking after its closing tokens or the phrase; interrupt where its budget is spent."""
        n = self.count
        next_forced = np.where(forced, self.forced[:n] + 1, -1)
        phrase_done = next_forced == len(self._phrase)
        next_forced[phrase_done] = -1
        self.closed[:n] |= phrase_done | (~forced & self._ends_with_close())
        if self._markers.phrase is not None:
            spent = self.thinking_count[:n] >= self.max_thinking[:n]
            interrupt = spent & ~self.closed[:n] & ~forced & ~stopped
            next_forced[interrupt] = 0
            self.interrupted[:n] |= interrupt
        self.forced[:n] = next_forced

    def _ends_with_close(self) -> Bools:
        n, width = self.count, len(self._close)
        rows, length = np.arange(n), self.length[:n]
        ends = (length >= width) if width else np.zeros(n, dtype=np.bool_)
        for back, token in enumerate(self._close[::-1], start=1):
            ends &= (
                self.tokens[rows, length - back] == token
            )  # a column below 0 wraps, and `ends` is False there
        return ends

    def _exhausted(self) -> Bools:
        """Rows that have spent their last token."""
        n = self.count
        if self._markers.phrase is None:
            return self.length[:n] >= self.max_thinking[:n] + self.max_answer[:n]
        return self.closed[:n] & (self.forced[:n] < 0) & (self.answer_count[:n] >= self.max_answer[:n])

    def _completion(self, row: int) -> Completion:
        request, length = self.requests[row], int(self.length[row])
        tokens = self.tokens[row, :length].copy()
        sampled = self.sampled[row, :length].copy()
        stopped = bool(sampled[-1]) and tokens[-1] == self._markers.end_token
        return Completion(
            group=request.group,
            prompt_id=request.prompt_id,
            sample=int(self.sample[row]),
            prompt=request.prompt,
            tokens=tokens,
            logprobs=self.logprobs[row, :length].copy(),
            versions=self.versions[row, :length].copy(),
            sampled=sampled,
            finish="stop" if stopped else "truncated",
            interrupted=bool(self.interrupted[row]),
        )
