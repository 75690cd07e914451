"""Reading sequences: together or alone, padded little, in one pass with others or in several: all alike."""

import pytest
import torch

from scalerl.generate import prefill as module
from scalerl.generate.prefill import prefill, readings, run_stretches
from scalerl.loop.setup import QUICKSTART_FOLDER
from scalerl.policy.inference import inference_weights, rope_turns
from scalerl.policy.lean import architecture_of
from scalerl.policy.load import load_policy

SEQUENCES = [(5, 6, 7), (8,), tuple(range(5, 30)), (9, 10), tuple(range(4, 28))]


@pytest.fixture(scope="module")
def read():
    policy = load_policy(QUICKSTART_FOLDER)
    architecture = architecture_of(policy.model)
    weights = inference_weights(architecture, policy.weights(), largest_table=64)
    return architecture, weights, rope_turns(architecture, 40, weights.embedding)


def same(one, other):
    for name in ("keys", "values", "hidden"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-4, atol=1e-5)


def test_together_in_the_order_given_as_alone(read):
    architecture, weights, turns = read
    together = prefill(architecture, weights, SEQUENCES, turns)
    assert [prefix.keys.shape[2] for prefix in together] == [3, 1, 25, 2, 24]
    for sequence, prefix in zip(SEQUENCES, together, strict=True):
        same(prefix, prefill(architecture, weights, [sequence], turns)[0])


def test_few_tokens_are_one_reading_and_many_are_cut_by_length(read):
    *_, turns = read
    assert [reading.places for reading in readings(SEQUENCES, turns)] == [[2, 4, 0, 3, 1]]
    long, short = [(5,) * 30] * 20, [(5,) * 10] * 20
    cut = readings([*short, *long], turns)
    assert [len(reading.stretch.tokens) for reading in cut] == [780, 140]  # 6 short ones are free padding
    assert sorted(place for reading in cut for place in reading.places) == list(range(40))
    assert readings([], turns) == []


def test_a_pass_takes_what_its_bound_allows(read, monkeypatch):
    architecture, weights, turns = read
    monkeypatch.setattr(module, "MAX_PREFILL_TOKENS", 50)
    cut = readings(SEQUENCES, turns)
    assert [len(reading.stretch.tokens) for reading in cut] == [50, 9]
    passes = []
    real = module._one_pass
    monkeypatch.setattr(module, "_one_pass", lambda a, w, s: passes.append(len(s)) or real(a, w, s))
    stretches = [reading.stretch for reading in [*cut, *readings(SEQUENCES[:2], turns)]]
    hidden = run_stretches(architecture, weights, stretches)
    assert passes == [1, 2]
    assert [len(states) for states in hidden] == [50, 9, 6]
    monkeypatch.setattr(module, "MAX_PREFILL_TOKENS", 1000)
    for one, other in zip(hidden, run_stretches(architecture, weights, stretches), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert passes == [1, 2, 3]
