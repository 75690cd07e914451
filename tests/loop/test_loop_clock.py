"""The simulated clock against closed forms, and its invariants on random clusters."""

from __future__ import annotations

import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.loop.clock import Clock
from scalerl.loop.lengths import LogNormalLengths, SyntheticContent
from scalerl.loop.profile import FIGURES, Profile, load_profile, parse_profile, profile_names
from scalerl.loop.roofline import (
    boundaries_before,
    decode_seconds,
    prefill_seconds,
    training_seconds,
    transfer_seconds,
)
from scalerl.loop.schedule import Pipeline, PpoOffPolicy

# Round: 2 s to read the weights, 0.001 s a token in context, 0.01 s a token of prefill, 0.015 s of training.
TOY = Profile(
    name="toy",
    generators=1,
    trainers=2,
    slots_per_generator=4,
    flops_per_second=2000.0,
    bytes_per_second=100.0,
    parameters=10.0,
    bytes_per_parameter=10.0,
    kv_bytes_per_token=0.05,
    decode_bandwidth_share=0.5,
    prefill_flops_share=1.0,
    training_flops_share=1.0,
    transfer_bytes_per_second=200.0,
    transfer_seconds=0.25,
    verification_seconds=0.125,
)


def _content(length: float, *, cv: float = 0.0, generators: int = 1, completions: int = 2, seed: int = 0):
    lengths = LogNormalLengths(mean=length, cv=cv, cap=10**6)
    return SyntheticContent(
        lengths, generators=generators, prompt_tokens=5, generations_per_prompt=completions, seed=seed
    )


def test_hand_computed_times():
    assert decode_seconds(TOY, 3, 20.0) == pytest.approx((100 + 0.05 * 20) / 50)
    assert decode_seconds(TOY, 3, 20.0, 2) == pytest.approx((101 + 101.15) / 50)
    assert prefill_seconds(TOY, 7) == pytest.approx(7 * 20 / 2000)
    assert training_seconds(TOY, 50) == pytest.approx(50 * 60 / 4000)
    assert transfer_seconds(TOY) == pytest.approx(0.25 + 100 / 200)


@given(
    st.integers(1, 300),
    st.integers(0, 10_000),
    st.integers(0, 60),
    st.floats(0.01, 100.0),
)
def test_many_decode_steps_are_the_sum_of_single_ones(active, context, steps, slower):
    """Also where the first steps are bound by compute and the later ones by memory."""
    profile = TOY.with_figure("flops_per_second", TOY.flops_per_second / slower)
    single = sum(decode_seconds(profile, active, context + active * i) for i in range(steps))
    assert decode_seconds(profile, active, context, steps) == pytest.approx(single, rel=1e-12)


@given(st.floats(0, 100), st.integers(1, 40), st.integers(1, 3))
def test_first_boundary_from_a_moment_on(seconds, most, stride):
    found = boundaries_before(TOY, 2, 10, seconds, most, stride)
    times = [decode_seconds(TOY, 2, 10, j * stride) for j in range(most + 1)]
    assert found == next((j for j in range(most) if times[j] >= seconds), most)


def test_ppo_turn_by_turn_equals_the_formula():
    """Constant lengths, one generator that holds a whole turn: generation, k steps, transfer, and again."""
    clock = Clock(TOY, PpoOffPolicy(k=2, prompts_per_step=1), _content(30))
    generate = prefill_seconds(TOY, 10) + decode_seconds(TOY, 4, 20, 30) + TOY.verification_seconds
    train = training_seconds(TOY, 2 * 35)
    turn = generate + 2 * train + transfer_seconds(TOY)
    for step in range(8):
        seen = clock.advance()
        expected = (step // 2) * turn + generate + (step % 2 + 1) * train
        assert seen.seconds == pytest.approx(expected, rel=1e-12)
        assert seen.staleness == (step % 2,)
        assert seen.device_hours == pytest.approx(3 * expected / 3600, rel=1e-12)
    turns = 4
    decode = turns * (generate - TOY.verification_seconds)
    assert seen.generator_busy_seconds == pytest.approx(decode, rel=1e-12)
    assert seen.slot_seconds == pytest.approx(4 * decode, rel=1e-12)
    assert seen.trainer_busy_seconds == pytest.approx(2 * 8 * train, rel=1e-12)
    assert seen.tokens == turns * 4 * 30


def test_pipeline_never_stops_the_generator_and_equals_the_formula():
    """Slots for one step: its groups finish together, the next start at once; new weights cost no time."""
    clock = Clock(TOY, Pipeline(k=3, prompts_per_step=2), _content(30))
    generate = prefill_seconds(TOY, 10) + decode_seconds(TOY, 4, 20, 30)
    train = training_seconds(TOY, 4 * 35)
    assert train + transfer_seconds(TOY) < generate, "the case that the formula is for"
    for step in range(1, 7):
        seen = clock.advance()
        assert seen.seconds == pytest.approx(step * generate + TOY.verification_seconds + train, rel=1e-9)
        assert seen.generator_idle_seconds == pytest.approx(0, abs=1e-9)
        assert seen.staleness == ((0, 0) if step == 1 else (1, 1)), (
            "started while the step before was on its way"
        )


def test_recomputing_the_cache_costs_a_prefill_of_what_is_in_flight():
    plain = Clock(TOY, Pipeline(k=3, prompts_per_step=2), _content(30))
    costly = Clock(TOY, Pipeline(k=3, prompts_per_step=2), _content(30), recompute_kv_on_update=True)
    plain.advance()
    costly.advance()
    arrival = training_seconds(TOY, 4 * 35) + TOY.verification_seconds + transfer_seconds(TOY)
    into = arrival - prefill_seconds(TOY, 10)
    passed = boundaries_before(TOY, 4, 20, into, 30, 1)
    extra = prefill_seconds(TOY, 4 * (5 + passed))
    assert costly.advance().seconds - plain.advance().seconds == pytest.approx(extra, rel=1e-9)


def test_weights_are_taken_at_the_first_boundary_after_they_arrive():
    class Watched(SyntheticContent):
        def take_weights(self, version):
            arrivals.append(clock.now)

    arrivals: list[float] = []
    chunks: list[tuple[float, float]] = []
    lengths = LogNormalLengths(mean=30, cv=0.0, cap=100)
    clock = Clock(
        TOY,
        Pipeline(k=3, prompts_per_step=2),
        Watched(lengths, generators=1, prompt_tokens=5, generations_per_prompt=2, seed=0),
        observer=lambda side, _, start, end, __: chunks.append((start, end)) if side == "generator" else None,
    )
    clock.advance()
    clock.advance()
    arrived = TOY.verification_seconds + training_seconds(TOY, 4 * 35) + transfer_seconds(TOY)
    arrived += prefill_seconds(TOY, 10) + decode_seconds(TOY, 4, 20, 30)
    assert arrivals[0] == pytest.approx(arrived)
    (start, end) = chunks[1]
    boundaries = next(j for j in range(31) if start + decode_seconds(TOY, 4, 20, j) >= arrived)
    assert 1 < boundaries < 30
    assert end == pytest.approx(start + decode_seconds(TOY, 4, 20, boundaries))


def test_a_long_token_passes_boundaries_only_every_stride():
    """One token that stands for 10: the same times as ten times longer completions and prompts."""
    short = Clock(TOY, PpoOffPolicy(k=1, prompts_per_step=2), _content(3), tokens_per_token=10)
    lengths = LogNormalLengths(mean=30, cv=0.0, cap=100)
    long = Clock(
        TOY,
        PpoOffPolicy(k=1, prompts_per_step=2),
        SyntheticContent(lengths, generators=1, prompt_tokens=50, generations_per_prompt=2, seed=0),
    )
    assert [short.advance().seconds for _ in range(3)] == pytest.approx(
        [long.advance().seconds for _ in range(3)], rel=1e-12
    )


class _Audit(SyntheticContent):
    """Checks what the clock does with its content."""

    def __init__(self, *arguments, slots, **named):
        super().__init__(*arguments, **named)
        self.slots, self.inside, self.trained = slots, [0] * named["generators"], []

    def start(self, device, members):
        self.inside[device] += len(members)
        assert self.inside[device] <= self.slots
        super().start(device, members)

    def stop(self, device, boundaries):
        finished = super().stop(device, boundaries)
        self.inside[device] -= len(finished)
        return finished

    def end_step(self, reading):
        self.trained += self.ledger.training
        super().end_step(reading)


_clusters = {
    "kind": st.sampled_from([Pipeline, PpoOffPolicy]),
    "k": st.integers(1, 4),
    "prompts": st.integers(1, 4),
    "completions": st.integers(1, 5),
    "generators": st.integers(1, 4),
    "slots": st.integers(1, 9),
    "cv": st.sampled_from([0.0, 0.7, 2.0]),
    "seed": st.integers(0, 1000),
    "train_speed": st.sampled_from([0.02, 1.0, 50.0]),
    "recompute": st.booleans(),
}


def _cluster(kind, k, prompts, completions, generators, slots, cv, seed, train_speed, recompute):
    profile = TOY.model_copy(
        update={
            "generators": generators,
            "slots_per_generator": slots,
            "training_flops_share": min(1.0, train_speed),
            "transfer_seconds": 1.0 / train_speed,
        }
    )
    content = _Audit(
        LogNormalLengths(mean=20, cv=cv, cap=200),
        generators=generators,
        prompt_tokens=3,
        generations_per_prompt=completions,
        seed=seed,
        slots=slots,
    )
    return Clock(profile, kind(k=k, prompts_per_step=prompts), content, recompute_kv_on_update=recompute)


@settings(max_examples=120, deadline=None)
@given(**_clusters)
def test_conservation_staleness_and_every_group_once(**choice):
    clock = _cluster(**choice)
    seen = [clock.advance() for _ in range(4 * choice["k"] + 2)]
    reserved = clock.profile.generators
    for step in seen:
        total = step.generator_busy_seconds + step.generator_idle_seconds
        assert total == pytest.approx(reserved * step.seconds, rel=1e-9)
        trainer = step.trainer_busy_seconds + step.trainer_idle_seconds
        assert trainer == pytest.approx(clock.profile.trainers * step.seconds, rel=1e-9)
        assert step.slot_seconds <= step.generator_busy_seconds * choice["slots"] * (1 + 1e-9)
        assert min(step.staleness) >= 0
        assert max(step.staleness) <= clock.schedule.max_staleness
    assert all(earlier.seconds <= later.seconds for earlier, later in pairwise(seen))
    ledger, content = clock.ledger, clock.content
    everywhere = [*content.trained, *ledger.training, *ledger.running, *ledger.finished]
    assert sorted(everywhere) == list(range(len(everywhere)))
    assert len(content.trained) == len(seen) * choice["prompts"]


@settings(max_examples=40, deadline=None)
@given(**_clusters, steps=st.integers(0, 6))
def test_a_clock_restored_from_json_goes_on_bit_for_bit(steps, **choice):
    clock = _cluster(**choice)
    for _ in range(steps):
        clock.advance()
    copied = _cluster(**choice)
    copied.content = copy.deepcopy(clock.content)
    copied.ledger = copied.content.ledger
    copied.load_state_dict(json.loads(json.dumps(clock.state_dict())))
    assert [clock.advance() for _ in range(5)] == [copied.advance() for _ in range(5)]


def test_small_turns_spread_over_idle_generators():
    """Four groups on four generators: one each, though one generator has room for two."""
    content = _content(30, generators=4)
    seen: list[int] = []
    profile = TOY.with_figure("generators", 4)
    clock = Clock(
        profile,
        PpoOffPolicy(k=1, prompts_per_step=4),
        content,
        observer=lambda side, number, start, end, active: (
            seen.append(number) if side == "generator" else None
        ),
    )
    clock.advance()
    assert sorted(seen) == [0, 1, 2, 3]


def test_shipped_profiles_hold_the_stated_figures():
    assert profile_names() == ["node-8xh200", "source-80"]
    source = load_profile("source-80")
    assert (source.generators, source.trainers, source.slots_per_generator) == (64, 16, 64)
    assert (source.flops_per_second, source.bytes_per_second) == (2.5e15, 8e12)
    assert (source.parameters, source.kv_bytes_per_token) == (8e9, 131072)
    assert transfer_seconds(source) == pytest.approx(0.5 + 16 / 50)
    node = load_profile("node-8xh200")
    assert (node.generators, node.trainers, node.flops_per_second, node.bytes_per_second) == (
        6,
        2,
        0.99e15,
        4.8e12,
    )
    assert set(FIGURES) == set(Profile.model_fields) - {"name", "description", "generators", "trainers"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: x\nspeed: 3\n", "generators"),
        ("[1, 2]", "mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_wrong_profiles_are_one_line(text, says):
    with pytest.raises(UserError, match=says) as caught:
        parse_profile(text, "mine.yaml")
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_field_and_bad_value_of_a_profile():
    good = TOY.model_dump()
    for field, value in (
        ("speed", 3),
        ("generators", 0),
        ("bytes_per_second", -1.0),
        ("training_flops_share", 1.5),
    ):
        with pytest.raises(UserError, match=field):
            parse_profile(json.dumps({**good, field: value}), "mine.yaml")
    with pytest.raises(UserError, match="nowhere"):
        load_profile("nowhere.yaml")
