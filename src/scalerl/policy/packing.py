"""How groups of completions are laid out: one flat stream of tokens without padding, each prompt once.

The stream is [P prompts padded to one length | completion 0 | completion 1 | ...]. A completion's last token
isn't in it: it predicts nothing. Attention works on blocks: rows of like length, the rows of a prompt
together, padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TokenGroup = tuple[Sequence[int], Sequence[Ints]]
"""A prompt's tokens and its completions' tokens, each of at least one."""

PADDING_SHARE = 0.3
"""Rows are sorted by length; a block is closed when the next row would bring its padding above this share."""
FREE_PADDING_TOKENS = 512
"""Padding that isn't worth a block of its own."""


@dataclass(frozen=True, slots=True)
class Block:
    """B bundles of R rows of L tokens each; the rows of bundle b go on from prompt `prompts[b]`.

    `tokens` [B, R, L]: where each lies among the completions' tokens of the stream; -1 is padding. A prompt
    with many rows here may have several bundles.
    """

    prompts: Ints
    tokens: Ints


@dataclass(frozen=True, slots=True)
class Packing:
    """The stream and where each completion token's predicting position lies in it."""

    tokens: Ints  # [S]
    positions: Ints  # [S], in the sequence: rope positions
    prompt_lengths: Ints  # [P]
    prompt_room: int  # the prompts' padded length
    blocks: tuple[Block, ...]
    predictors: Ints  # [T]: in completion order, the stream index whose hidden state predicts the token
    targets: Ints  # [T]: the tokens predicted

    @property
    def prompt_tokens(self) -> int:
        """Stream tokens of the prompts, padding included."""
        return len(self.prompt_lengths) * self.prompt_room


def pack(groups: Sequence[TokenGroup]) -> Packing:
    """Lay out groups; completions keep their order in the stream, `predictors` and `targets`."""
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
    targets = np.concatenate(completions).astype(np.int64, copy=False)
    fed = np.ones(len(targets), dtype=np.bool_)
    fed[lengths.cumsum() - 1] = False
    fed_lengths = lengths - 1
    within = np.arange(int(fed_lengths.sum())) - np.repeat(fed_lengths.cumsum() - fed_lengths, fed_lengths)
    first = prompts.size + fed_lengths.cumsum() - fed_lengths
    return Packing(
        tokens=np.concatenate((prompts.ravel(), targets[fed])),
        positions=np.concatenate(
            (np.tile(np.arange(room), len(groups)), np.repeat(prompt_lengths[owner], fed_lengths) + within)
        ),
        prompt_lengths=prompt_lengths,
        prompt_room=room,
        blocks=tuple(_block(rows, owner, fed_lengths, room) for rows in _cut(fed_lengths)),
        predictors=_predictors(first, lengths, owner * room + prompt_lengths[owner] - 1),
        targets=targets,
    )


def _cut(lengths: Ints) -> list[Ints]:
    """Rows by falling length (zeros left out), cut where the padding becomes too much."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    cut: list[Ints] = []
    start, padding = 0, 0
    for end, row in enumerate(order):
        longest = int(lengths[order[start]])
        added = longest - int(lengths[row])
        allowed = max(FREE_PADDING_TOKENS, PADDING_SHARE * longest * (end + 1 - start))
        if padding + added > allowed:
            cut.append(order[start:end])
            start, padding = end, 0
        else:
            padding += added
    return [*cut, order[start:]] if len(order) else []


def _block(rows: Ints, owner: Ints, lengths: Ints, room: int) -> Block:
    """Bundle rows by their prompt, as many to a bundle as costs the fewest keys and queries in all."""
    rows = np.sort(rows)
    longest = int(lengths[rows].max())
    prompts, counts = np.unique(owner[rows], return_counts=True)
    sizes = np.arange(1, counts.max() + 1)
    bundles = -(-counts[:, None] // sizes)
    size = int(sizes[np.argmin(bundles.sum(0) * (sizes * longest + room))])
    of_prompt = -(-counts // size)
    rank = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
    bundle = np.repeat(of_prompt.cumsum() - of_prompt, counts) + rank // size
    starts = lengths.cumsum() - lengths
    column = np.arange(longest)
    inside = column < lengths[rows, None]
    tokens = np.full((int(of_prompt.sum()), size, longest), -1, dtype=np.int64)
    tokens[bundle, rank % size] = np.where(inside, starts[rows, None] + column, -1)
    return Block(np.repeat(prompts, of_prompt), tokens)


def _predictors(first: Ints, lengths: Ints, prompt_last: Ints) -> Ints:
    """Stream indices [T]: the prompt's last token predicts token 0, a completion's token t - 1 predicts t."""
    starts = np.cumsum(lengths) - lengths
    indices = np.arange(int(lengths.sum())) + np.repeat(first - starts - 1, lengths)
    indices[starts] = prompt_last
    return indices
