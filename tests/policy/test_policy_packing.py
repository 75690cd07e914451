"""The packed stream: every token once, no padding but the prompts'; blocks that hold each token once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalerl.policy.packing import FREE_PADDING_TOKENS, PADDING_SHARE, pack

GROUPS = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(1, 40), min_size=1, max_size=9)), min_size=1, max_size=5
)


def groups_of(sizes):
    """Prompts 100, 101, ...; the tokens of completions are 1, 2, 3, ... through all of them."""
    groups, next_token = [], 1
    for prompt, lengths in sizes:
        completions = []
        for length in lengths:
            completions.append(np.arange(next_token, next_token + length))
            next_token += length
        groups.append((tuple(range(100, 100 + prompt)), completions))
    return groups


def test_by_hand():
    packed = pack(groups_of([(2, [3, 1]), (1, [2])]))
    # prompts padded to 2, then all but each completion's last token
    assert packed.tokens.tolist() == [100, 101, 100, 0, 1, 2, 5]
    assert packed.positions.tolist() == [0, 1, 0, 1, 2, 3, 1]
    assert packed.targets.tolist() == [1, 2, 3, 4, 5, 6]
    # the prompt's last token predicts each completion's first
    assert packed.predictors.tolist() == [1, 4, 5, 1, 2, 6]
    (block,) = packed.blocks
    assert block.prompts.tolist() == [0, 1]
    assert block.tokens.tolist() == [[[0, 1]], [[2, -1]]]


@given(GROUPS)
def test_every_token_is_in_one_place_of_a_bundle_of_its_prompt(sizes):
    groups = groups_of(sizes)
    packed = pack(groups)
    fed = len(packed.tokens) - packed.prompt_tokens
    places = np.concatenate([np.zeros(0, int), *(block.tokens.ravel() for block in packed.blocks)])
    assert sorted(places[places >= 0]) == list(range(fed))
    owner = np.repeat(np.arange(len(groups)), [sum(len(c) - 1 for c in cs) for _, cs in groups])
    for block in packed.blocks:
        for prompt, bundle in zip(block.prompts, block.tokens, strict=True):
            assert (bundle[:, 0] >= 0).any()
            assert set(owner[bundle[bundle >= 0]]) == {prompt}
            for row in bundle:
                inside = row[row >= 0]
                assert (row[: len(inside)] >= 0).all()
                assert np.array_equal(inside, np.arange(len(inside)) + (inside[0] if len(inside) else 0))
        longest = block.tokens.shape[2]
        lengths = (block.tokens >= 0).sum(2)
        padding = (longest - lengths[lengths > 0]).sum()
        assert padding <= max(FREE_PADDING_TOKENS, PADDING_SHARE * longest * (lengths > 0).sum())
    assert (packed.tokens[packed.predictors] >= 0).all()


def test_rows_of_a_prompt_are_bundled_where_that_is_cheaper():
    few_long = pack([((5,) * 30, [np.ones(9, dtype=int)] * 8)])
    assert few_long.blocks[0].tokens.shape == (1, 8, 8)
    lonely = pack([((5,), [np.ones(101, dtype=int)] * 5), ((5,), [np.ones(101, dtype=int)])])
    assert lonely.blocks[0].tokens.shape == (6, 1, 100)


def test_nothing_to_pack_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        pack([((1,), [])])
