"""How a batch is cut into micro-batches."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st

from scalerl.loop.trainer import micro_batches


def batch(groups: list[list[int]]) -> SimpleNamespace:
    """Groups of completions by their numbers of tokens; prompts of one token."""
    completions = [SimpleNamespace(prompt=(1,), tokens=(0,) * size) for sizes in groups for size in sizes]
    prompt = [number for number, sizes in enumerate(groups) for _ in sizes]
    return SimpleNamespace(prompt=torch.tensor(prompt), completions=completions)


def everything(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.bool)


def test_only_what_is_marked_is_cut():
    marked = torch.tensor([True, True, False, False, True, False])
    parts = micro_batches(batch([[5, 5], [4, 6], [1, 9]]), marked, 10)
    assert parts == [[0, 1], [4]]
    assert micro_batches(batch([[5, 5]]), torch.zeros(2, dtype=torch.bool), 10) == []


def test_parts_are_even_by_hand():
    """40 tokens in groups of 10, at most 30: two parts of 20, not 30 and 10."""
    parts = micro_batches(batch([[5, 5], [4, 6], [1, 9], [10]]), everything(7), 30)
    assert parts == [[0, 1, 2, 3], [4, 5, 6]]


def test_a_long_group_stays_whole():
    assert micro_batches(batch([[50, 50], [1]]), everything(3), 10) == [[0, 1], [2]]
    assert micro_batches(batch([[1], [0, 0]]), everything(3), 10) == [[0, 1, 2]]


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=5), min_size=1, max_size=12),
    st.integers(1, 100),
)
def test_every_completion_is_in_one_part_and_parts_keep_to_their_size(groups, tokens):
    prepared = batch(groups)
    parts = micro_batches(prepared, everything(len(prepared.completions)), tokens)
    assert sorted(i for part in parts for i in part) == list(range(len(prepared.completions)))
    assert all(parts)
    largest = max(sum(sizes) for sizes in groups)
    for part in parts:
        assert sum(len(prepared.completions[i].tokens) for i in part) <= tokens + largest
    for number in range(len(groups)):
        mine = {i for i, prompt in enumerate(prepared.prompt.tolist()) if prompt == number}
        assert sum(bool(mine & set(part)) for part in parts) == 1
