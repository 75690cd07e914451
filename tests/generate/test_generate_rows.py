"""Budgets and interruption, token by token, by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.rows import Markers, Rows

END, CLOSE = 1, 2


def completion_of(drawn, thinking, answer, phrase=(8, 9, CLOSE), close=(CLOSE,)):
    """Feed the drawn tokens to one row until it is finished; None when it isn't."""
    rows = Rows(1, 64, 0, Markers(END, close, phrase))
    rows.add([(GroupRequest(0, "p", (5,), (Budget(thinking, answer),)), 0)])
    for token in drawn:
        finished = rows.advance(np.array([token]), np.array([-1.0], dtype=np.float32), 0)
        if finished[0]:
            return rows.take(finished)[0]
    return None


def test_stops_at_the_end_token_in_the_answer():
    done = completion_of([4, CLOSE, 4, END, 4], 10, 5)
    assert done.tokens.tolist() == [4, CLOSE, 4, END]
    assert (done.finish, done.interrupted) == ("stop", False)
    assert done.sampled.all()


def test_stops_at_the_end_token_in_thinking():
    done = completion_of([4, END], 10, 5)
    assert (done.tokens.tolist(), done.finish) == ([4, END], "stop")


def test_open_thinking_is_interrupted_and_answers_within_the_answer_budget():
    done = completion_of([4, 4, 4, 7, 7, 7, 6, END], 3, 2)
    # three sampled, then the phrase in place of what was drawn, then two sampled of the answer
    assert done.tokens.tolist() == [4, 4, 4, 8, 9, CLOSE, 6, END]
    assert done.sampled.tolist() == [True] * 3 + [False] * 3 + [True] * 2
    assert done.logprobs.tolist() == [-1.0] * 3 + [0.0] * 3 + [-1.0] * 2
    assert (done.finish, done.interrupted) == ("stop", True)


def test_interrupted_and_then_too_long_is_truncated():
    done = completion_of([4, 4, 4, 7, 7, 7, 6, 6, END], 3, 2)
    assert done.tokens.tolist() == [4, 4, 4, 8, 9, CLOSE, 6, 6]
    assert (done.finish, done.interrupted) == ("truncated", True)


def test_closing_at_the_budgets_last_token_is_in_time():
    done = completion_of([4, 4, CLOSE, 6, END], 3, 2)
    assert (done.tokens.tolist(), done.interrupted) == ([4, 4, CLOSE, 6, END], False)


def test_the_answer_budget_counts_from_the_closing():
    done = completion_of([CLOSE, 6, 6, 6], 10, 3)
    assert done.tokens.tolist() == [CLOSE, 6, 6, 6]
    assert (done.finish, done.interrupted) == ("truncated", False)


def test_without_a_phrase_the_hard_limit_is_the_sum():
    done = completion_of([4] * 9, 3, 2, phrase=None)
    assert (done.tokens.tolist(), done.finish, done.interrupted) == ([4] * 5, "truncated", False)
    done = completion_of([CLOSE, 4, 4, 4, END], 3, 2, phrase=None)
    assert (len(done.tokens), done.finish) == (5, "stop")


def test_no_thinking_budget_starts_with_the_phrase():
    done = completion_of([7, 7, 7, 6, END], 0, 2)
    assert done.tokens.tolist() == [8, 9, CLOSE, 6, END]
    assert done.interrupted


def test_closing_of_several_tokens():
    close = (3, CLOSE)
    done = completion_of([CLOSE, 3, CLOSE, 6], 10, 1, close=close)
    assert (done.tokens.tolist(), done.finish) == ([CLOSE, 3, CLOSE, 6], "truncated")
    assert completion_of([CLOSE, 3, 4, CLOSE, 6], 10, 1, close=close) is None


def test_an_end_token_inside_the_phrase_is_no_end():
    done = completion_of([4, 7, 7, 6, END], 1, 3, phrase=(END, CLOSE))
    assert done.tokens.tolist() == [4, END, CLOSE, 6, END]


@settings(max_examples=200, deadline=None)
@given(
    drawn=st.lists(st.integers(0, 5), min_size=40, max_size=40),
    thinking=st.integers(0, 8),
    answer=st.integers(1, 6),
    with_phrase=st.booleans(),
)
def test_every_completion_keeps_its_budgets(drawn, thinking, answer, with_phrase):
    phrase = (8, 9, CLOSE) if with_phrase else None
    done = completion_of(drawn, thinking, answer, phrase=phrase)
    injected = int((~done.sampled).sum())
    assert injected == (3 if done.interrupted else 0)
    assert int(done.sampled.sum()) <= thinking + answer
    assert (done.finish == "stop") == (done.tokens[-1] == END and bool(done.sampled[-1]))
    assert END not in done.tokens[:-1][done.sampled[:-1]]
    if done.interrupted:
        assert np.flatnonzero(~done.sampled).tolist() == [thinking, thinking + 1, thinking + 2]
        assert CLOSE not in done.tokens[:thinking]
    elif with_phrase and CLOSE in done.tokens:
        assert done.tokens.tolist().index(CLOSE) < thinking


@pytest.mark.parametrize("finished", [[0], [1, 3], [0, 1, 2, 3, 4], [4], [0, 4], [2, 3]])
def test_closing_holes_keeps_the_other_rows(finished):
    rows = Rows(8, 4, 0, Markers(END, (CLOSE,), None))
    rows.add([(GroupRequest(g, "p", (5,), (Budget(9, 9),)), 0) for g in range(5)])
    rows.advance(np.arange(10, 15), np.zeros(5, dtype=np.float32), 0)
    mask = np.isin(np.arange(5), finished)
    sources, targets = rows.close_holes(mask)
    left = set(range(5)) - set(finished)
    assert rows.count == len(left)
    assert {request.group for request in rows.requests} == left
    assert [10 + request.group for request in rows.requests] == rows.tokens[: rows.count, 0].tolist()
    assert not set(sources) & set(targets)
    assert len(sources) <= len(finished)
