"""The held-out split, decontamination, mixtures."""

import pytest
from data_rows import examples, write
from hypothesis import given
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.task.build import build_evaluation_set, build_task, contamination_report
from scalerl.task.contamination import find_contamination, ngrams
from scalerl.task.dataset import load_set
from scalerl.task.mixture import MixedPart, by_domain, mix
from scalerl.task.protocol import Judgement, Task
from scalerl.task.spec import parse_spec
from scalerl.task.split import normalise_prompt, prompt_id, split_held_out


@given(st.text(min_size=1, max_size=30))
def test_ids_ignore_case_and_space(text):
    assert prompt_id(f"  {text}\n") == prompt_id(text)
    assert normalise_prompt(normalise_prompt(text)) == normalise_prompt(text)


@given(st.permutations([f"problem {n}" for n in range(20)]), st.integers(1, 19))
def test_split_does_not_depend_on_order_and_grows_by_adding(prompts, held_out_prompts):
    train, held_out = split_held_out(examples(prompts), held_out_prompts)
    _, again = split_held_out(examples(sorted(prompts)), held_out_prompts)
    assert len(held_out) == held_out_prompts
    assert {e.id for e in held_out} == {e.id for e in again}
    assert not {e.id for e in train} & {e.id for e in held_out}
    if held_out_prompts > 1:
        assert {e.id for e in split_held_out(examples(prompts), held_out_prompts - 1)[1]} < {
            e.id for e in held_out
        }


def test_seed_changes_the_split_and_too_large_is_refused():
    twenty = examples([f"p{n}" for n in range(20)])
    assert split_held_out(twenty, 5)[1] != split_held_out(twenty, 5, seed=1)[1]
    with pytest.raises(UserError, match="held_out_prompts"):
        split_held_out(twenty, 20)


def test_duplicates_never_straddle(tmp_path):
    rows = [
        {"prompt": f"Problem  {n % 10}".upper() if n > 9 else f"problem {n % 10}", "answer": str(n % 10)}
        for n in range(30)
    ]
    task = build_task({"kind": "math_file", "path": str(write(tmp_path, rows)), "held_out_prompts": 4})
    assert (len(task.train), len(task.held_out)) == (6, 4)
    assert not {normalise_prompt(e.prompt) for e in task.train} & {
        normalise_prompt(e.prompt) for e in task.held_out
    }


# --- decontamination


def test_ngrams_by_hand():
    assert list(ngrams("A b, c d", 3)) == [("a", "b", "c"), ("b", "c", "d")]
    assert list(ngrams("a b", 3)) == [("a", "b")]
    assert list(ngrams("", 3)) == []


def test_contamination_is_found():
    words = " ".join(f"w{n}" for n in range(20))
    train = examples(["something else entirely " * 5, "Prefix. " + words + " suffix", "w0 w1 w2"])
    report = find_contamination(train, {"bench": examples([words]), "other": examples(["nothing of it"])})
    assert report.train_ids == {train[1].id}
    assert report.overlaps["bench"][0].share == 1.0
    assert report.overlaps["other"] == ()
    assert "1 of 3 training prompts" in report.lines()[0]


def test_contaminated_prompts_leave_the_task(tmp_path):
    long = " ".join(f"word{n}" for n in range(30))
    rows = [{"prompt": f"problem {n}", "answer": "1"} for n in range(5)] + [
        {"prompt": f"See: {long}", "answer": "1"}
    ]
    bench = write(tmp_path, [{"problem": long, "answer": "2"}], "bench.jsonl")
    spec = parse_spec(
        {
            "kind": "math_file",
            "path": str(write(tmp_path, rows)),
            "held_out_prompts": 1,
            "decontaminate_against": [f"math500:{bench}"],
        }
    )
    assert len(contamination_report(spec, load_set(spec).examples).train_ids) == 1
    task = build_task(spec)
    assert len(task.train) + len(task.held_out) == 5


# --- mixtures


class Always:
    def __init__(self, passed):
        self.passed = passed
        self.asked = 0

    def __call__(self, examples, completions):
        self.asked += len(examples)
        return [Judgement(self.passed, 1.0)] * len(examples)


def test_mixture_keeps_proportions_and_domains_apart():
    yes, no = Always(True), Always(False)
    math = Task("m", tuple(examples([f"m{n}" for n in range(60)])), tuple(examples(["shared", "mh"])), yes)
    code = Task("c", tuple(examples([f"c{n}" for n in range(10)] + ["shared"])), tuple(examples(["ch"])), no)
    mixed = mix([MixedPart("math", math, 3.0), MixedPart("code", code, 1.0)])
    parts = by_domain(mixed.train)
    assert {d: len(p) for d, p in parts.items()} == {"math": 30, "code": 10}
    assert {d: len(p) for d, p in by_domain(mixed.held_out).items()} == {"math": 2, "code": 1}
    assert not {e.id for e in mixed.train} & {e.id for e in mixed.held_out}
    judged = mixed.verifier([mixed.train[0], mixed.train[-1], mixed.train[1]], ["a", "b", "c"])
    assert [j.passed for j in judged] == [True, False, True]
    assert (yes.asked, no.asked) == (2, 1)


def test_mixture_spec(tmp_path):
    math = {
        "kind": "math_file",
        "path": str(write(tmp_path, [{"prompt": f"p{n}", "answer": "1"} for n in range(9)])),
    }
    parts = [
        {"task": {**math, "held_out_prompts": 1}, "weight": 1},
        {"task": {"kind": "arithmetic", "train_prompts": 20, "held_out_prompts": 5}, "weight": 2},
    ]
    task = build_task({"kind": "mixture", "parts": parts})
    assert {d: len(p) for d, p in by_domain(task.train).items()} == {"math": 8, "arithmetic": 16}
    assert len(build_evaluation_set({"kind": "mixture", "parts": parts}).examples) == 6
    with pytest.raises(UserError, match="differ"):
        build_task({"kind": "mixture", "parts": [parts[1], parts[1]]})


def test_parts_may_be_named_and_do_not_nest(tmp_path):
    rows = [{"prompt": f"p{n}", "answer": "1"} for n in range(9)]
    math = {"kind": "math_file", "path": str(write(tmp_path, rows)), "held_out_prompts": 2}
    more = [{"prompt": f"q{n}", "answer": "1"} for n in range(9)]
    other = {**math, "path": str(write(tmp_path, more, "more.jsonl"))}
    parts = [{"task": math, "domain": "easy"}, {"task": other, "domain": "hard"}]
    task = build_task({"kind": "mixture", "parts": parts})
    assert {d: len(p) for d, p in by_domain(task.held_out).items()} == {"easy": 2, "hard": 2}
    with pytest.raises(UserError, match="list its parts"):
        build_task({"kind": "mixture", "parts": [{"task": {"kind": "mixture", "parts": parts}}]})


def test_a_mixture_says_whether_thinking_must_close(tmp_path):
    """One prompter opens the thinking for all parts, so all their verifiers must ask for its end."""
    math = {"kind": "math_file", "held_out_prompts": 1}
    parts = [
        {
            "task": {
                **math,
                "path": str(write(tmp_path, [{"prompt": f"{c}{n}", "answer": "1"} for n in range(4)], c)),
            },
            "domain": c,
        }
        for c in ("a.jsonl", "b.jsonl")
    ]
    for thinking, passed in (("open", False), ("off", True)):
        task = build_task({"kind": "mixture", "parts": parts, "prompt": {"thinking": thinking}})
        judged = task.verifier(task.held_out, ["hm \\boxed{1}"] * 2)
        assert [j.passed for j in judged] == [passed] * 2
