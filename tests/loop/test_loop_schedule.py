"""Schedules: hand-made situations, and invariants over random completion timings."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.loop.ledger import Ledger
from scalerl.loop.schedule import Pipeline, PpoOffPolicy, Schedule


def _admitted(count: int, start: int = 0, first: int = 0) -> Ledger:
    ledger = Ledger(version=start)
    for group in range(first, first + count):
        ledger.admit(group, start)
    return ledger


def test_ppo_takes_a_whole_turn_then_trains_k_steps():
    schedule = PpoOffPolicy(k=2, prompts_per_step=3)
    ledger = Ledger()
    assert schedule.groups_to_admit(ledger, 4, 0) == 4
    for group in range(4):
        ledger.admit(group, 0)
    assert schedule.groups_to_admit(ledger, 4, 0) == 2
    ledger.admit(4, 0)
    ledger.admit(5, 0)
    assert schedule.groups_to_admit(ledger, 4, 0) == 0
    for group in (5, 3, 1, 0, 2):
        ledger.finish(group)
        assert schedule.next_batch(ledger) is None
    ledger.finish(4)
    assert schedule.next_batch(ledger) == (0, 1, 2)
    ledger.begin_step((0, 1, 2))
    assert schedule.next_batch(ledger) is None
    assert schedule.groups_to_admit(ledger, 4, 0) == 0
    assert ledger.end_step() == 1
    assert not schedule.publishes_after(1)
    assert schedule.groups_to_admit(ledger, 4, 0) == 0
    assert schedule.next_batch(ledger) == (3, 4, 5)
    ledger.begin_step((3, 4, 5))
    assert ledger.staleness() == (1, 1, 1)
    assert schedule.publishes_after(ledger.end_step())
    assert schedule.groups_to_admit(ledger, 9, 0) == 0, "the generator hasn't got the new weights yet"
    assert schedule.groups_to_admit(ledger, 9, 2) == 6


def test_ppo_makes_up_for_dropped_groups_before_the_trainer_begins():
    schedule = PpoOffPolicy(k=1, prompts_per_step=2)
    ledger = _admitted(2)
    ledger.finish(0)
    ledger.drop(1)
    assert schedule.next_batch(ledger) is None
    assert schedule.groups_to_admit(ledger, 9, 0) == 1


def test_pipeline_trains_whatever_is_finished_and_never_stops_generating():
    schedule = Pipeline(k=2, prompts_per_step=2)
    ledger = _admitted(4)
    ledger.finish(3)
    assert schedule.next_batch(ledger) is None
    ledger.finish(1)
    assert schedule.next_batch(ledger) == (1, 3)
    ledger.begin_step((1, 3))
    assert schedule.groups_to_admit(ledger, 9, 0) == 2, "6 = (k+1) P less 2 outstanding less 2 in training"
    assert schedule.publishes_after(ledger.end_step())


def test_pipeline_waits_for_the_oldest():
    schedule = Pipeline(k=1, prompts_per_step=1)
    ledger = _admitted(2)
    ledger.finish(1)
    assert schedule.next_batch(ledger) == (1,), "group 0 may still be trained at version 1"
    ledger.begin_step((1,))
    ledger.end_step()
    ledger.admit(2, 1)
    ledger.finish(2)
    assert schedule.next_batch(ledger) is None, "at version 2 group 0 would be 2 versions old"
    ledger.finish(0)
    assert schedule.next_batch(ledger) == (0,)


def test_pipeline_looks_ahead_when_one_age_fills_more_than_a_step():
    schedule = Pipeline(k=2, prompts_per_step=1)
    ledger = _admitted(3)
    ledger.finish(2)
    ledger.begin_step((2,))
    ledger.end_step()
    ledger.admit(3, 1)
    ledger.finish(3)
    # Groups 0 and 1 (start 0) must go at versions 1 and 2: spending version 1 on group 3 leaves one at age 3.
    assert schedule.next_batch(ledger) is None
    ledger.finish(1)
    assert schedule.next_batch(ledger) == (1,)


def test_pipeline_bounds_what_is_outstanding():
    schedule = Pipeline(k=3, prompts_per_step=5)
    assert schedule.groups_to_admit(Ledger(), 1000, 0) == 20
    assert schedule.groups_to_admit(Ledger(version=4), 1000, 3) == 15, "a generator one version behind"
    assert schedule.groups_to_admit(Ledger(version=4), 1000, 0) == 0, "a generator too far behind"


def test_start_versions_rank_before_admission_numbers():
    ledger = Ledger(version=3)
    ledger.admit(10, 3)
    ledger.admit(11, 2)
    ledger.finish(10)
    ledger.finish(11)
    assert ledger.oldest_finished(2) == (11, 10)


def test_ledger_survives_json_mid_step():
    ledger = _admitted(5)
    for group in (4, 2, 0):
        ledger.finish(group)
    ledger.begin_step((4, 0))
    copy = Ledger()
    copy.load_state_dict(json.loads(json.dumps(ledger.state_dict())))
    assert copy == ledger
    assert list(copy.training) == [4, 0]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda ledger: ledger.admit(0, 0),
        lambda ledger: ledger.admit(7, 1),
        lambda ledger: (ledger.begin_step((0,)), ledger.begin_step((0,))),
        lambda ledger: ledger.begin_step(()),
        lambda ledger: ledger.end_step(),
    ],
    ids=["admit twice", "admit the future", "two steps at once", "empty step", "no step"],
)
def test_ledger_refuses_nonsense(misuse):
    ledger = _admitted(2)
    ledger.finish(0)
    with pytest.raises(ValueError):
        misuse(ledger)


@pytest.mark.parametrize("schedule", [PpoOffPolicy, Pipeline])
def test_bad_sizes_are_refused(schedule):
    with pytest.raises(ValueError):
        schedule(k=0, prompts_per_step=1)
    with pytest.raises(ValueError):
        schedule(k=1, prompts_per_step=0)


def _play(schedule: Schedule, seed: int, slots: int, generators: int, steps: int, drop_share: float) -> dict:
    """Random order of finishing, weights' arrival and trainer work; returns what was seen."""
    rng = random.Random(seed)
    ledger, born, trained, dropped = Ledger(), 0, [], []
    versions, mail = [0] * generators, [[] for _ in range(generators)]
    home: dict[int, int] = {}
    worst, idle_turns = 0, 0
    while ledger.version < steps:
        moved = False
        for place in range(generators):
            here = sum(1 for group in ledger.running if home[group] == place)
            for _ in range(schedule.groups_to_admit(ledger, slots - here, versions[place])):
                ledger.admit(born, versions[place])
                home[born] = place
                born += 1
                moved = True
        assert len(ledger.running) <= slots * generators
        choices = []
        if ledger.running:
            choices.append("finish")
        if ledger.training:
            choices.append("end")
        elif schedule.next_batch(ledger) is not None:
            choices.append("begin")
        choices += [f"mail {place}" for place in range(generators) if mail[place]]
        if not choices:
            idle_turns += 1
            assert moved or idle_turns < 2, f"deadlock at version {ledger.version}"
            continue
        idle_turns = 0
        choice = rng.choice(choices)
        if choice == "finish":
            group = rng.choice(sorted(ledger.running))
            if rng.random() < drop_share:
                ledger.drop(group)
                dropped.append(group)
            else:
                ledger.finish(group)
        elif choice == "begin":
            batch = schedule.next_batch(ledger)
            assert batch is not None
            assert len(batch) == schedule.prompts_per_step
            ledger.begin_step(batch)
            worst = max(worst, *ledger.staleness())
            assert min(ledger.staleness()) >= 0
            trained += batch
        elif choice == "end":
            version = ledger.end_step()
            if schedule.publishes_after(version):
                for box in mail:
                    box.append(version)
        else:
            place = int(choice.split()[1])
            versions[place] = mail[place].pop(0)
    seen = {"worst": worst, "born": born, "trained": trained, "dropped": dropped, "ledger": ledger}
    return seen


_timings = {
    "k": st.integers(1, 6),
    "prompts": st.integers(1, 5),
    "seed": st.integers(0, 2**32 - 1),
    "slots": st.integers(1, 12),
    "generators": st.integers(1, 4),
    "drop_share": st.sampled_from([0.0, 0.3]),
}


@pytest.mark.parametrize("kind", [PpoOffPolicy, Pipeline])
@settings(max_examples=150, deadline=None)
@given(**_timings)
def test_bounded_staleness_no_deadlock_every_group_once(
    kind, k, prompts, seed, slots, generators, drop_share
):
    schedule = kind(k=k, prompts_per_step=prompts)
    seen = _play(schedule, seed, slots, generators, steps=4 * k + 3, drop_share=drop_share)
    assert seen["worst"] <= schedule.max_staleness
    ledger = seen["ledger"]
    everywhere = [*seen["trained"], *seen["dropped"], *ledger.running, *ledger.finished]
    assert sorted(everywhere) == list(range(seen["born"])), "each group in exactly one place, none lost"


def test_the_bound_is_reached():
    worst = dict.fromkeys((PpoOffPolicy, Pipeline), 0)
    for kind in worst:
        for seed in range(20):
            seen = _play(kind(k=3, prompts_per_step=2), seed, 6, 2, steps=20, drop_share=0.0)
            worst[kind] = max(worst[kind], seen["worst"])
    assert worst == {PpoOffPolicy: 2, Pipeline: 3}
