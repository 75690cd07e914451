"""A mixture's domains as evaluation sets of their own: counted by hand, recorded, fitted, resumed."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from small_run import Silent, config, write_model

import scalerl
from scalerl.errors import UserError
from scalerl.generate.protocol import Completion
from scalerl.loop.heldout import HeldOut, VerifierDown
from scalerl.loop.run import train_run
from scalerl.loop.scored import ScoredGroup
from scalerl.record.prompts import PerPrompt, prompts_hash
from scalerl.record.schema import Compute, Evaluation, RunHeader
from scalerl.record.write import RunWriter
from scalerl.task.arithmetic import arithmetic_task
from scalerl.task.mixture import MixedPart, by_domain, mix
from scalerl.task.protocol import Example, Judgement, Task

STOP, CUT = "stop", "truncated"


class NoEngine:
    """Takes weights and does nothing with them."""

    def load_weights(self, weights, version):
        pass


def judged(number, prompt_id, outcomes, finish=STOP, tokens=3):
    """A group whose completions all have `tokens` tokens; the first one ends as `finish` says."""
    one = np.ones(tokens)
    ends = [finish] + [STOP] * (len(outcomes) - 1)
    completions = tuple(
        Completion(
            group=number,
            prompt_id=prompt_id,
            sample=i,
            prompt=(1,),
            tokens=one.astype(np.int64),
            logprobs=one.astype(np.float32),
            versions=one.astype(np.int64),
            sampled=one.astype(np.bool_),
            finish=end,
            interrupted=False,
        )
        for i, end in enumerate(ends)
    )
    return ScoredGroup(number, prompt_id, completions, list(outcomes), [None] * len(outcomes))


def evaluations_of(groups, domains):
    held_out = HeldOut(
        engine=NoEngine(),
        examples=[Example(name, "?", "", domain) for name, domain in domains.items()],
        prompter=None,
        verifier=None,
        lengths=None,
        samples_per_prompt=4,
        seed=0,
    )
    with patch.object(HeldOut, "_requests"), patch.object(HeldOut, "_scored", return_value=groups):
        return held_out.evaluate({}, 7, 7, 0, Compute(flops=1.0))


MIXED = [
    judged(0, "a", [True, True, False, False]),
    judged(1, "c", [True, True, False, False], finish=CUT, tokens=5),  # the first is truncated: wrong
    judged(2, "b", [True, True, True, True]),
    judged(3, "d", [None, False, None, False], tokens=7),  # the verifier failed on two
]
DOMAINS = {"a": "math", "c": "code", "b": "math", "d": "code"}


def test_domains_by_hand():
    (whole, _), (maths, math_counts), (code, code_counts) = evaluations_of(MIXED, DOMAINS)
    assert [e.set for e in (whole, maths, code)] == ["held_out", "math", "code"]
    assert [e.domain for e in (whole, maths, code)] == [None, "math", "code"]
    assert (math_counts.prompt_ids, code_counts.prompt_ids) == (("a", "b"), ("c", "d"))
    assert (code_counts.passed.tolist(), code_counts.sampled.tolist()) == ([1, 0], [4, 2])
    # shares 1/2, 1 | 1/4, 0; the truncated completion that "passed" is wrong
    assert whole.pass_rate == pytest.approx((0.5 + 1 + 0.25 + 0) / 4)
    assert maths.pass_rate == pytest.approx(0.75)
    assert code.pass_rate == pytest.approx(0.125)
    # p (1 - p) / (k - 1) of each prompt: 1/12, 0 | 1/16, 0
    assert maths.stderr == pytest.approx(math.sqrt(1 / 12) / 2)
    assert code.stderr == pytest.approx(math.sqrt(1 / 16) / 2)
    assert whole.stderr == pytest.approx(math.sqrt(1 / 12 + 1 / 16) / 4)
    assert [(e.prompts, e.samples, e.truncated) for e in (whole, maths, code)] == [
        (4, 14, 1),
        (2, 8, 0),
        (2, 6, 1),
    ]
    assert [e.mean_length for e in (maths, code)] == [3.0, 6.0]


def test_one_domain_is_one_set():
    assert [e.set for e, _ in evaluations_of(MIXED, dict.fromkeys(DOMAINS, "math"))] == ["held_out"]


def test_a_domain_that_nobody_could_judge_is_named():
    failed = [judged(0, "a", [True, False]), judged(1, "c", [None, None])]
    with pytest.raises(VerifierDown, match="'code'"):
        evaluations_of(failed, DOMAINS)


# --- a run


def says(digit):
    def verifier(examples, completions):
        return [Judgement(digit in text, 1.0 if digit in text else -1.0) for text in completions]

    return verifier


def mixture(_spec=None):
    easy = arithmetic_task(train_prompts=40, held_out_prompts=5, max_operations=2, seed=1)
    hard = arithmetic_task(train_prompts=40, held_out_prompts=3, max_operations=4, seed=2)
    parts = [(easy, "sevens", "7", 3.0), (hard, "threes", "3", 1.0)]
    return mix(
        [
            MixedPart(name, Task(name, task.train, task.held_out, says(digit)), weight)
            for task, name, digit, weight in parts
        ]
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


class Stop(Exception):  # noqa: N818
    pass


class Screen(Silent):
    """Notes what it hears; ends the run at a step, as a crash would."""

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.sets = []

    def on_step(self, row):
        if row["step"] == self.stop_at:
            raise Stop

    def on_evaluation(self, evaluation):
        self.sets.append(evaluation.set)


def run(path, model, clock=None, screen=None):
    settings = config(model, steps=6) if clock else config(model, steps=6, clock=None)
    with patch("scalerl.loop.setup.build_task", mixture):
        train_run(settings, path, screen or Silent())
    return scalerl.load(path)


def test_a_run_records_every_domain(model, tmp_path):
    screen = Screen()
    done = run(tmp_path / "run", model, screen=screen)
    assert done.sets == {"held_out": 4, "sevens": 4, "threes": 4}
    assert screen.sets == ["held_out"] * 4, "progress shows the whole"
    assert done.default_set() == "held_out"
    held_out = by_domain(mixture().held_out)
    for name, members in held_out.items():
        curve = done.curve(set=name, axis="steps")
        assert curve.compute.tolist() == [0, 2, 4, 6]
        assert curve.stderr_kind == "per-prompt"
        assert curve.held_out_hash == prompts_hash(e.id for e in members)
        counts = done.per_prompt[name, 4, 0]
        assert counts.prompt_ids == tuple(e.id for e in members)
        assert curve.pass_rate[2] == pytest.approx(float(np.mean(counts.passed / counts.sampled)))
    hashes = [done.curve(set=name).held_out_hash for name in done.sets]
    assert len(set(hashes)) == 3
    # the whole is the mean over all prompts, whatever their domain
    whole, sevens, threes = (done.curve(set=name).pass_rate for name in done.sets)
    assert whole == pytest.approx((len(held_out["sevens"]) * sevens + len(held_out["threes"]) * threes) / 8)


@pytest.mark.parametrize("clock", [None, "simulated"])
def test_resumed_is_the_same_bit_for_bit(model, tmp_path, clock):
    whole = run(tmp_path / "whole", model, clock)
    with pytest.raises(Stop):
        run(tmp_path / "cut", model, clock, Screen(stop_at=5))
    again = run(tmp_path / "cut", model, clock)
    assert again.difference(whole) is None
    assert sorted(p.name for p in (tmp_path / "cut/prompts").iterdir()) == sorted(
        p.name for p in (tmp_path / "whole/prompts").iterdir()
    )


def test_domains_do_not_change_training(model, tmp_path):
    """The same prompts and verifier in one domain: equal steps, equal evaluation of the whole."""

    def one_domain(_spec):
        mixed = mixture()
        plain = {e.id: e.domain for e in (*mixed.train, *mixed.held_out)}

        def verifier(examples, completions):
            named = [Example(e.id, e.prompt, e.answer, plain[e.id]) for e in examples]
            return mixed.verifier(named, completions)

        def flat(examples):
            return tuple(Example(e.id, e.prompt, e.answer) for e in examples)

        return Task("plain", flat(mixed.train), flat(mixed.held_out), verifier)

    mixed = run(tmp_path / "mixed", model)
    with patch("scalerl.loop.setup.build_task", one_domain):
        train_run(config(model, steps=6, clock=None), tmp_path / "plain", Silent())
    plain = scalerl.load(tmp_path / "plain")
    assert plain.sets == {"held_out": 4}
    assert mixed.steps == plain.steps
    assert [e for e in mixed.evaluations if e.domain is None] == list(plain.evaluations)
    assert mixed.header.held_out_hash == plain.header.held_out_hash


# --- the record


def record(folder, rates, prompt_ids=("p", "q")):
    writer = RunWriter.create(folder, RunHeader(name="r", held_out_hash="of the whole"))
    for step, rate in rates:
        for name, shift in (("held_out", 0.0), ("math", 0.1)):
            evaluation = Evaluation(
                step=step, set=name, pass_rate=rate + shift, compute=Compute(flops=float(step))
            )
            writer.evaluation(evaluation, (prompt_ids, [1] * len(prompt_ids), [2] * len(prompt_ids)))
    return scalerl.load(folder)


def test_hash_of_a_set_is_that_of_its_prompts(tmp_path):
    one = record(tmp_path / "one", [(0, 0.1), (10, 0.2)])
    other = record(tmp_path / "other", [(0, 0.1), (10, 0.2)], ("q", "p"))
    assert one.curve(set="held_out").held_out_hash == "of the whole"
    assert one.curve(set="math").held_out_hash == prompts_hash(["q", "p"])
    assert other.curve(set="math").held_out_hash == one.curve(set="math").held_out_hash
    writer = RunWriter.open(tmp_path / "one")
    evaluation = Evaluation(step=20, set="math", pass_rate=0.4, compute=Compute(flops=20.0))
    writer.evaluation(evaluation, PerPrompt.of(["p"], [1], [2]))
    assert scalerl.load(tmp_path / "one").curve(set="math").held_out_hash is None


def test_fit_picks_the_set(tmp_path):
    import json

    from typer.testing import CliRunner

    from scalerl.cli import main

    law = [(n, 0.2 + 0.5 / (1 + (40 / n) ** 1.5) if n else 0.2) for n in range(0, 400, 10)]
    record(tmp_path / "run", law)
    if not main.app.registered_commands:
        main._gather()
    ceilings = {}
    for name in ("held_out", "math"):
        got = CliRunner().invoke(main.app, ["fit", str(tmp_path / "run"), "--set", name, "--json"])
        assert got.exit_code == 0, got.output
        ceilings[name] = json.loads(got.stdout)["A"]
    assert ceilings["held_out"] == pytest.approx(0.7, abs=0.01)
    assert ceilings["math"] == pytest.approx(0.8, abs=0.01)


def test_domains_that_would_share_a_file_are_refused():
    task = mixture()
    for names in (("math", "math"), ("a b", "a/b"), ("held_out", "math")):
        with pytest.raises(UserError, match="domain"):
            mix([MixedPart(name, task, 1.0) for name in names])
