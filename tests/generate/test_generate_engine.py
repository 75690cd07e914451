"""The embedded engine: log-probs, in-flight updates, restarts, independence of the batch."""

import copy

import numpy as np
import pytest
import torch
from scipy import stats

from scalerl.errors import UserError
from scalerl.generate.protocol import Budget, GroupRequest
from scalerl.generate.sampling import Sampling
from scalerl.generate.torch_engine import TorchEngine, generate_all
from scalerl.policy.forward import completion_logprobs
from scalerl.policy.load import new_policy

TINY = {
    "vocab_size": 16,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
    "initializer_range": 0.1,
}
END, CLOSE, PHRASE = 1, (2,), (5, 6, 2)


def policy_of(seed=0, **fields):
    return new_policy({**TINY, **fields}, seed)


def engine_of(policy=None, **options):
    options = {"slots": 12, "seed": 7, "interruption_phrase": PHRASE, **options}
    return TorchEngine(policy or policy_of(), end_token=END, close_thinking=CLOSE, **options)


def requests(count=6, samples=4, thinking=8, answer=4, first=0):
    rng = np.random.default_rng(first)
    return [
        GroupRequest(
            group=first + g,
            prompt_id=f"p{g}",
            prompt=tuple(int(t) for t in rng.integers(3, 16, 2 + g % 4)),
            budgets=tuple(Budget(thinking + s, answer) for s in range(samples)),
        )
        for g in range(count)
    ]


def as_training_groups(completions):
    return [(c.prompt, [c.tokens]) for c in completions]


def same(left, right):
    assert [(c.group, c.sample, c.finish, c.interrupted) for c in left] == [
        (c.group, c.sample, c.finish, c.interrupted) for c in right
    ]
    for a, b in zip(left, right, strict=True):
        for field in ("tokens", "logprobs", "versions", "sampled"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_key_value_heads": 2, "tie_word_embeddings": False},
        {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16},
    ],
)
def test_logprobs_equal_the_training_forward(fields):
    policy = policy_of(**fields)
    completions = generate_all(engine_of(policy), requests())
    assert len(completions) == 24
    with torch.no_grad():
        expected, _ = completion_logprobs(policy, as_training_groups(completions), fp32_head=True)
    recorded = np.concatenate([c.logprobs for c in completions])
    sampled = np.concatenate([c.sampled for c in completions])
    assert 0 < sampled.sum() < len(sampled)
    assert np.abs(recorded - expected.numpy())[sampled].max() <= 1e-5
    assert (recorded[~sampled] == 0).all()


def test_in_flight_update_goes_on_with_new_weights_on_the_stale_cache():
    old, new = policy_of(0), policy_of(1)
    engine = engine_of(old, slots=8)
    [request] = requests(1, samples=8, thinking=20, answer=10)
    engine.submit([request])
    before = 6
    finished = [c for _ in range(before) for c in engine.step()]
    engine.load_weights(new.weights(), 3)
    while engine.active:
        finished += engine.step()
    crossing = [c for c in finished if len(c.tokens) > before]
    assert len(crossing) >= 3
    for completion in crossing:
        assert completion.versions.tolist() == [0] * before + [3] * (len(completion.tokens) - before)
        # by hand, with Hugging Face's cache: old weights up to the token before the last, then the new
        tokens, prompt = completion.tokens.tolist(), list(completion.prompt)
        with torch.no_grad():
            stale = old.model(torch.tensor([prompt + tokens[: before - 1]]), use_cache=True)
            later = new.model(
                torch.tensor([tokens[before - 1 :]]), cache=stale.past_key_values, use_cache=True
            )
        first = stale.logits[0, len(prompt) - 1 :]
        logprobs = torch.cat((first, later.logits[0, :-1])).log_softmax(-1)
        expected = logprobs[torch.arange(len(tokens)), torch.tensor(tokens)].numpy()
        assert np.abs(completion.logprobs - expected)[completion.sampled].max() <= 1e-5


def test_recomputing_the_cache_makes_later_tokens_those_of_the_new_weights_alone():
    old, new = policy_of(0), policy_of(1)
    engine = engine_of(old, slots=8, recompute_kv_on_update=True)
    engine.submit(requests(1, samples=8, thinking=20, answer=10))
    finished = [c for _ in range(6) for c in engine.step()]
    engine.load_weights(new.weights(), 1)
    while engine.active:
        finished += engine.step()
    crossing = [c for c in finished if c.versions[-1] == 1]
    assert len(crossing) >= 3
    for completion in crossing:
        with torch.no_grad():
            expected, _ = completion_logprobs(new, as_training_groups([completion]), fp32_head=True)
        later = completion.sampled & (completion.versions == 1)
        assert np.abs(completion.logprobs - expected.numpy())[later].max() <= 1e-5


def test_samples_that_start_after_an_update_are_wholly_of_the_new_weights():
    old, new = policy_of(0), policy_of(1)
    engine = engine_of(old, slots=3)  # the group's later samples wait for a slot
    engine.submit(requests(1, samples=8))
    finished = engine.step()
    engine.load_weights(new.weights(), 1)
    while engine.active or engine.queued:
        finished += engine.step()
    late = [c for c in finished if c.versions[0] == 1]
    assert len(late) >= 5
    with torch.no_grad():
        expected, _ = completion_logprobs(new, as_training_groups(late), fp32_head=True)
    sampled = np.concatenate([c.sampled for c in late])
    assert np.abs(np.concatenate([c.logprobs for c in late]) - expected.numpy())[sampled].max() <= 1e-5


def test_updating_the_policy_doesnt_change_the_engine():
    policy = policy_of()
    engine = engine_of(policy)
    with torch.no_grad():
        for parameter in policy.parameters().values():
            parameter.zero_()
    same(generate_all(engine, requests()), generate_all(engine_of(policy_of()), requests()))


@pytest.mark.parametrize("slots", [1, 3, 5, 24, 40])
def test_what_is_sampled_doesnt_depend_on_the_batch(slots):
    expected = generate_all(engine_of(slots=12), requests())
    for ours, theirs in zip(generate_all(engine_of(slots=slots), requests()), expected, strict=True):
        np.testing.assert_array_equal(ours.tokens, theirs.tokens)
        np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-5)


def test_another_seed_samples_something_else():
    one, other = (generate_all(engine_of(seed=seed), requests()) for seed in (7, 8))
    assert any(a.tokens.tolist() != b.tokens.tolist() for a, b in zip(one, other, strict=True))
    same(one, generate_all(engine_of(seed=7), requests()))


@pytest.mark.parametrize("steps", [0, 1, 4, 9])
@pytest.mark.parametrize("slots", [5, 24])
def test_restored_state_continues_bit_for_bit(steps, slots, tmp_path):
    engine, groups = engine_of(slots=slots), requests()
    engine.submit(groups[:4])
    for _ in range(steps):
        engine.step()
    torch.save(engine.state_dict(), tmp_path / "state.pt")
    fresh = engine_of(slots=slots)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (fresh.active, fresh.queued) == (engine.active, engine.queued)
    for each in (engine, fresh):
        each.submit(groups[4:])
    while engine.active or engine.queued:
        same(engine.step(), fresh.step())
    assert not fresh.active
    assert not fresh.queued


def test_state_survives_an_update_in_flight():
    new = policy_of(1)
    engine, fresh = engine_of(), engine_of(new, policy_version=1)
    engine.submit(requests())
    for _ in range(3):
        engine.step()
    engine.load_weights(new.weights(), 1)
    state = copy.deepcopy(engine.state_dict())
    fresh.load_state_dict(state)
    assert fresh.active
    while engine.active or engine.queued:
        same(engine.step(), fresh.step())


def test_state_of_another_version_is_refused():
    engine = engine_of()
    state = engine.state_dict()
    engine.load_weights(policy_of(1).weights(), 1)
    with pytest.raises(UserError, match="version 0"):
        engine.load_state_dict(state)


def test_state_of_another_layout_is_refused_in_one_line():
    engine = engine_of()
    state = engine.state_dict()
    state |= state.pop("cache")  # as it was once: keys and values beside the rows
    with pytest.raises(
        UserError, match="lacks keys, prompt_of, prompts, room, values: another version of scalerl"
    ) as caught:
        engine_of().load_state_dict(state)
    assert "\n" not in str(caught.value)


def test_slots_are_refilled_at_once_and_counts_add_up():
    engine = engine_of(slots=5)
    engine.submit(requests())
    assert (engine.active, engine.queued) == (0, 24)
    done = 0
    while engine.active or engine.queued:
        waiting = engine.queued
        finished = engine.step()
        done += len(finished)
        assert engine.active + engine.queued + done == 24
        if waiting:
            assert engine.active + len(finished) == min(5, 24 - done + len(finished))
        assert finished == sorted(finished, key=lambda c: (c.group, c.sample))
    assert done == 24
    assert engine.step() == []


def test_first_tokens_follow_the_models_distribution():
    policy = policy_of(initializer_range=0.6)
    request = GroupRequest(0, "p", (3, 4, 5), (Budget(1, 1),) * 4000)
    completions = generate_all(engine_of(policy, slots=512), [request])
    counts = np.bincount([c.tokens[0] for c in completions], minlength=16)
    with torch.no_grad():
        expected = policy.model(torch.tensor([[3, 4, 5]])).logits[0, -1].softmax(-1).double().numpy()
    assert expected.max() > 0.15  # not a flat distribution
    assert stats.chisquare(counts, expected / expected.sum() * 4000).pvalue > 1e-3


def test_longer_requests_later_make_room():
    engine = engine_of()
    engine.submit(requests(2))
    engine.step()
    long = GroupRequest(9, "long", tuple([3] * 40), (Budget(30, 30),))
    completions = generate_all(engine, [long])
    with torch.no_grad():
        expected, _ = completion_logprobs(policy_of(), as_training_groups(completions), fp32_head=True)
    sampled = np.concatenate([c.sampled for c in completions])
    difference = np.abs(np.concatenate([c.logprobs for c in completions]) - expected.numpy())
    assert difference[sampled].max() <= 1e-5


def test_greedy_evaluation_takes_the_likeliest_token_and_training_refuses_it():
    policy = policy_of()
    engine = engine_of(policy, sampling=Sampling(temperature=0.0), evaluation=True)
    [completion] = generate_all(engine, requests(1, samples=1))
    sequence = torch.tensor([[*completion.prompt, *completion.tokens.tolist()]])
    with torch.no_grad():
        likeliest = policy.model(sequence).logits[0, len(completion.prompt) - 1 : -1].argmax(-1).numpy()
    assert (likeliest == completion.tokens)[completion.sampled].all()
    with pytest.raises(UserError, match="evaluation only"):
        engine_of(policy, sampling=Sampling(temperature=0.7))
    with pytest.raises(UserError, match="evaluation only"):
        engine_of(policy, sampling=Sampling(top_p=0.9))


def test_diverged_weights_are_reported_with_their_version():
    engine = engine_of()
    engine.submit(requests(1))
    engine.step()
    broken = {name: torch.full_like(weight, float("nan")) for name, weight in policy_of().weights().items()}
    engine.load_weights(broken, 5)
    with pytest.raises(FloatingPointError, match="version 5"):
        engine.step()


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GroupRequest(0, "empty", (), (Budget(1, 1),)), "no tokens"),
        (GroupRequest(4, "none", (3,), ()), "group 4"),
    ],
)
def test_requests_that_make_no_sense_are_refused(request_, message):
    with pytest.raises(UserError, match=message):
        engine_of().submit([request_])


def test_bfloat16_decodes_with_a_float32_head():
    policy = new_policy(TINY, 0, dtype="bfloat16")
    completions = generate_all(engine_of(policy), requests(2))
    with torch.no_grad():
        expected, _ = completion_logprobs(policy, as_training_groups(completions), fp32_head=True)
    sampled = np.concatenate([c.sampled for c in completions])
    difference = np.abs(np.concatenate([c.logprobs for c in completions]) - expected.numpy())
    assert difference[sampled].max() <= 0.03
