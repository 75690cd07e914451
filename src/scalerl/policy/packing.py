"""How groups of completions are laid out as one flat stream of tokens, each prompt once, with little padding.

The stream is [P prompts padded to one length | bucket 0 | bucket 1 | ...]. A bucket holds completions of
about equal length, padded to its longest. A completion's last token is in no bucket: it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TokenGroup = tuple[Sequence[int], Sequence[Ints]]
"""A prompt's tokens and its completions' tokens, each of at least one."""

PADDING_SHARE = 0.06
"""A bucket is closed when the next completion would bring its padding above this share."""
_FREE_PADDING = 48  # tokens of padding that aren't worth a bucket of their own


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows of the stream from `start`: [rows, length], row r continuing prompt `prompts[r]`."""

    start: int
    prompts: Ints
    length: int

    @property
    def stop(self) -> int:
        """Where the next bucket begins."""
        return self.start + len(self.prompts) * self.length


@dataclass(frozen=True, slots=True)
class Packing:
    """The stream and where each completion token's predicting position lies in it."""

    tokens: Ints  # [S]
    positions: Ints  # [S], in the sequence: rope positions
    prompt_lengths: Ints  # [P]
    prompt_room: int  # the prompts' padded length
    buckets: tuple[Bucket, ...]
    predictors: Ints  # [T]: in completion order, the stream index whose hidden state predicts the token
    targets: Ints  # [T]: the tokens predicted

    @property
    def prompt_tokens(self) -> int:
        """Stream tokens of the prompts, padding included."""
        return len(self.prompt_lengths) * self.prompt_room


def pack(groups: Sequence[TokenGroup]) -> Packing:
    """Lay out groups; completions keep their order in `predictors` and `targets`."""
    prompt_lengths = np.array([len(prompt) for prompt, _ in groups], dtype=np.int64)
    room = int(prompt_lengths.max())
    completions = [tokens for _, group in groups for tokens in group]
    owner = np.repeat(np.arange(len(groups)), [len(group) for _, group in groups])
    lengths = np.array([len(tokens) for tokens in completions], dtype=np.int64)
    if prompt_lengths.min() < 1 or len(lengths) == 0 or lengths.min() < 1:
        raise ValueError("every prompt and every completion needs at least one token, and there must be some")
    prompts = np.zeros((len(groups), room), dtype=np.int64)
    for row, (prompt, _) in zip(prompts, groups, strict=True):
        row[: len(prompt)] = prompt
    tokens, positions = [prompts.ravel()], [np.tile(np.arange(room), len(groups))]
    first = np.empty(len(completions), dtype=np.int64)  # stream index of each completion's first token
    buckets: list[Bucket] = []
    start = prompts.size
    for rows in _cut(lengths - 1):
        bucket = Bucket(start, owner[rows], int(lengths[rows[0]]) - 1)
        block = np.zeros((len(rows), bucket.length), dtype=np.int64)
        for target, row in zip(block, rows, strict=True):
            target[: lengths[row] - 1] = completions[row][:-1]
        first[rows] = start + np.arange(len(rows)) * bucket.length
        tokens.append(block.ravel())
        positions.append((prompt_lengths[bucket.prompts, None] + np.arange(bucket.length)).ravel())
        buckets.append(bucket)
        start = bucket.stop
    return Packing(
        tokens=np.concatenate(tokens),
        positions=np.concatenate(positions),
        prompt_lengths=prompt_lengths,
        prompt_room=room,
        buckets=tuple(buckets),
        predictors=_predictors(first, lengths, owner * room + prompt_lengths[owner] - 1),
        targets=np.concatenate(completions).astype(np.int64, copy=False),
    )


def _cut(lengths: Ints) -> list[Ints]:
    """Rows by falling length (zeros left out), cut into buckets of little padding."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    buckets: list[Ints] = []
    start, padding = 0, 0
    for end, row in enumerate(order):
        longest = int(lengths[order[start]])
        added = longest - int(lengths[row])
        allowed = max(_FREE_PADDING, PADDING_SHARE * longest * (end + 1 - start))
        if padding + added > allowed:
            buckets.append(order[start:end])
            start, padding = end, 0
        else:
            padding += added
    if len(order):
        buckets.append(order[start:])
    return buckets


def _predictors(first: Ints, lengths: Ints, prompt_last: Ints) -> Ints:
    """Stream indices [T]: the prompt's last token predicts token 0, a completion's token t - 1 predicts t."""
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(int(lengths.sum())) + np.repeat(first - starts - 1, lengths)
    indices[starts] = prompt_last
    return indices
