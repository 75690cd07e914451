"""Curricula: epochs, retirement by either history, restart, exhaustion, and the user's own."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.recipe import load_recipe
from scalerl.recipe.axes import NoPositiveResampling, Uniform
from scalerl.task.curriculum import Epochs, build_curriculum

IDS = [f"p{i}" for i in range(7)]


def take(curriculum, n):
    return [curriculum.next() for _ in range(n)]


def test_every_prompt_once_an_epoch_in_an_order_of_seed_and_epoch():
    curriculum = build_curriculum(Uniform(), IDS, seed=1)
    epochs = [take(curriculum, 7) for _ in range(3)]
    assert all(sorted(epoch) == IDS for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = build_curriculum(Uniform(), IDS, seed=1)
    assert take(again, 21) == [*epochs[0], *epochs[1], *epochs[2]]
    assert take(build_curriculum(Uniform(), IDS, seed=2), 7) != epochs[0]


def test_uniform_never_retires():
    curriculum = build_curriculum(Uniform(), IDS, seed=1)
    for prompt_id in take(curriculum, 7):
        curriculum.observe(prompt_id, 16, 16)
    assert curriculum.retired == 0
    assert sorted(take(curriculum, 7)) == IDS


def test_retired_from_the_second_epoch_on_at_nine_of_ten():
    curriculum = build_curriculum(NoPositiveResampling(), IDS, seed=1)
    first = take(curriculum, 3)
    for prompt_id, passed in zip(first, (9, 8, 10), strict=True):
        curriculum.observe(prompt_id, passed, 10)
    assert curriculum.retired == 2
    assert sorted(first + take(curriculum, 4)) == IDS  # the first epoch is whole
    for _ in range(3):
        assert sorted(take(curriculum, 5)) == sorted(set(IDS) - {first[0], first[2]})


def test_last_visit_forgets_and_all_visits_remembers():
    visits = [(0, 16), (16, 16)]
    retired = {}
    for history in ("last_visit", "all_visits"):
        curriculum = build_curriculum(NoPositiveResampling(history=history), IDS, seed=0)
        for passed, sampled in visits:
            curriculum.observe("p3", passed, sampled)
        retired[history] = curriculum.retired
    assert retired == {"last_visit": 1, "all_visits": 0}
    # 0/16, then 16/16 nine times: 144 of 160 is 0.9
    for visit in range(8):
        curriculum.observe("p3", 16, 16)
        assert curriculum.retired == (1 if visit == 7 else 0)


def test_retirement_is_for_good_and_an_empty_group_says_nothing():
    curriculum = build_curriculum(NoPositiveResampling(), IDS, seed=0)
    curriculum.observe("p1", 0, 0)
    assert curriculum.retired == 0
    curriculum.observe("p1", 4, 4)
    curriculum.observe("p1", 0, 4)  # was still in flight
    assert curriculum.retired == 1


def test_a_group_that_finishes_in_the_second_epoch_still_retires():
    curriculum = build_curriculum(NoPositiveResampling(), IDS, seed=0)
    take(curriculum, 7)
    second = [curriculum.next()]
    late = next(i for i in IDS if i not in second)
    curriculum.observe(late, 4, 4)
    assert late not in take(curriculum, 5)


def test_all_retired_ends_the_run_after_the_first_epoch():
    curriculum = build_curriculum(NoPositiveResampling(), IDS, seed=0)
    for prompt_id in take(curriculum, 6):
        curriculum.observe(prompt_id, 16, 16)
    last = curriculum.next()
    assert last is not None
    curriculum.observe(last, 16, 16)
    assert take(curriculum, 3) == [None] * 3
    assert curriculum.retired == 7


def test_all_retired_in_the_middle_of_a_later_epoch():
    curriculum = build_curriculum(NoPositiveResampling(), IDS, seed=0)
    take(curriculum, 9)
    for prompt_id in IDS:
        curriculum.observe(prompt_id, 16, 16)
    assert curriculum.next() is None


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 30),
    st.lists(st.tuples(st.sampled_from(IDS), st.integers(0, 4)), max_size=30),
    st.integers(0, 9),
)
def test_a_restart_anywhere_continues_prompt_for_prompt(drawn, outcomes, seed):
    option = NoPositiveResampling(history="all_visits")
    one, other = (build_curriculum(option, IDS, seed=seed) for _ in range(2))
    take(one, drawn)
    for prompt_id, passed in outcomes:
        one.observe(prompt_id, passed, 4)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other.retired == one.retired
    for _ in range(20):
        prompt_id = one.next()
        assert other.next() == prompt_id
        if prompt_id is not None:
            one.observe(prompt_id, 4, 4)
            other.observe(prompt_id, 4, 4)


def test_state_of_another_training_set_is_refused():
    state = Epochs(IDS, 0).state_dict()
    with pytest.raises(UserError, match="another training set"):
        Epochs(IDS[::-1], 0).load_state_dict(state)


def test_bad_sets_and_observations():
    with pytest.raises(UserError, match="no prompts"):
        build_curriculum(Uniform(), [], seed=0)
    with pytest.raises(UserError, match="twice"):
        build_curriculum(Uniform(), ["a", "a"], seed=0)
    with pytest.raises(ValueError, match="isn't of this training set"):
        Epochs(IDS, 0).observe("q", 1, 1)
    with pytest.raises(ValueError, match="5 passed of 4"):
        Epochs(IDS, 0).observe("p1", 5, 4)


def test_the_users_own_curriculum(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Fixed:\n"
        "    retired = 0\n"
        "    def __init__(self, prompt_ids, seed): self.ids = prompt_ids\n"
        "    def next(self): return self.ids[0]\n"
    )
    (tmp_path / "r.yaml").write_text("from: scalerl\ncurriculum: mine.py:Fixed\n")
    option = load_recipe(tmp_path / "r.yaml").curriculum
    assert take(build_curriculum(option, IDS, seed=0), 3) == ["p0"] * 3
