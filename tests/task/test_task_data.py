"""Data sets by name and file (small files of our own in each schema), the split, decontamination, mixtures,
specs.
"""

import base64
import json
import pickle
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.task.build import build_evaluation_set, build_task, build_verifier, contamination_report
from scalerl.task.catalogue import NAMED
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.contamination import find_contamination, ngrams
from scalerl.task.dataset import load_set
from scalerl.task.math_verifier import MathVerifier
from scalerl.task.mixture import MixedPart, by_domain, mix
from scalerl.task.protocol import Example, Judgement, Task
from scalerl.task.rows import read_rows
from scalerl.task.spec import parse_spec
from scalerl.task.split import normalise_prompt, prompt_id, split_held_out

STDIN = json.dumps([{"type": "stdin_stdout", "input": "1 2\n", "output": "3\n"}])
LCB = [{"input": "1", "output": "2", "testtype": "stdin"}]
FUNCTIONAL = [{"input": "[1]\n2", "output": "3", "testtype": "functional"}]

# name -> (rows in the set's own schema, wanted answer or number of tests of each)
SCHEMAS = {
    "polaris": ([{"problem": "What is 1+1?", "answer": "2", "difficulty": "3/8"}], ["2"]),
    "deepscaler": ([{"problem": "P", "answer": "\\frac{1}{2}", "solution": "..."}], ["\\frac{1}{2}"]),
    "dapo17k": (
        [
            {
                "data_source": "math_dapo",
                "prompt": [{"role": "user", "content": "Solve: 2+2"}],
                "ability": "MATH",
                "reward_model": {"ground_truth": "4", "style": "rule"},
                "extra_info": {"index": "1"},
            }
        ]
        * 3,
        ["4"],
    ),
    "deepcoder": ([{"problem": "Add", "tests": STDIN}], [1]),
    "deepcoder-taco": (
        [{"problem": "Add", "tests": json.dumps({"inputs": ["1", "2"], "outputs": ["1", "2"]})}],
        [2],
    ),
    "deepcoder-lcbv5": (
        [
            {
                "problem": "Add",
                "tests": json.dumps(FUNCTIONAL),
                "metadata": json.dumps({"func_name": "add"}),
                "starter_code": "class Solution:\n    def add(self, xs, y):",
            }
        ],
        [1],
    ),
    "deepcoder-codeforces": ([{"problem": "Add", "tests": json.dumps([{"input": "1", "output": "2"}])}], [1]),
    "aime24": (
        [
            {
                "id": 1,
                "problem": "A",
                "solution": "so \\boxed{204}",
                "answer": "204",
                "url": "",
                "year": "2024",
            },
            {"id": 2, "problem": "B", "solution": "hence \\boxed{73}", "url": ""},
            {"ID": "2024-I-1", "Problem": "C", "Solution": "...", "Answer": 45},
        ],
        ["204", "73", "45"],
    ),
    "aime25": (
        [{"id": "0", "problem": "A", "answer": "70"}, {"question": "B", "answer": "588"}],
        ["70", "588"],
    ),
    "math500": (
        [
            {
                "problem": "A",
                "solution": "",
                "answer": "(3, \\pi)",
                "subject": "",
                "level": 2,
                "unique_id": "t/1",
            }
        ],
        ["(3, \\pi)"],
    ),
    "gsm8k": ([{"question": "Q", "answer": "He has 3*6=<<3*6=18>>18.\n#### 18"}], ["18"]),
    "livecodebench": (
        [
            {
                "question_title": "T",
                "question_content": "Add one",
                "platform": "atcoder",
                "question_id": "abc",
                "contest_id": "1",
                "contest_date": "2025-02-01T00:00:00",
                "starter_code": "",
                "difficulty": "easy",
                "public_test_cases": json.dumps(LCB),
                "private_test_cases": base64.b64encode(
                    zlib.compress(pickle.dumps(json.dumps(LCB * 2)))
                ).decode(),
                "metadata": "{}",
            }
        ],
        [3],
    ),
}


def write(folder, rows, name="rows.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_named_schema_is_read(tmp_path, name):
    rows, wanted = SCHEMAS[name]
    loaded = load_set(parse_spec({"kind": "dataset", "name": name, "path": str(write(tmp_path, rows))}))
    got = [len(e.payload["tests"].tests) if "tests" in e.payload else e.answer for e in loaded.examples]
    assert got == wanted
    assert loaded.report.rows == len(rows)
    assert loaded.report.duplicates == len(rows) - len(wanted)


def test_every_known_set_has_a_schema_here():
    assert set(NAMED) == set(SCHEMAS) | {"gsm8k-test"}


def test_parquet_and_jsonl_and_folders_agree(tmp_path):
    rows = [{"problem": f"What is {n}+{n}?", "answer": str(2 * n)} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    write(tmp_path, rows[:2], "a.jsonl")
    (tmp_path / "c.json").write_text(json.dumps(rows))
    assert list(read_rows(tmp_path / "b.parquet")) == rows
    assert list(read_rows(tmp_path)) == rows[:2] + rows + rows
    assert (
        len(load_set(parse_spec({"kind": "dataset", "name": "polaris", "path": str(tmp_path)})).examples) == 5
    )


def test_function_problems_show_their_starter_code(tmp_path):
    rows, _ = SCHEMAS["deepcoder-lcbv5"]
    path = str(write(tmp_path, rows))
    example = load_set(parse_spec({"kind": "dataset", "name": "deepcoder-lcbv5", "path": path})).examples[0]
    assert "def add(self, xs, y):" in example.prompt
    assert example.id == prompt_id("Add")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"problem": "P", "answer": "1"}\n{"problem": ', ":2: not JSON"),
        ("[1]\n", ":1: a line must be an object"),
        ('{"text": "P"}\n', "columns looked for: problem, Problem, question, answer, Answer; found: text"),
        ("", "no usable row"),
    ],
)
def test_bad_files_say_where(tmp_path, text, reason):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=reason):
        load_set(parse_spec({"kind": "dataset", "name": "polaris", "path": str(path)}))
    with pytest.raises(UserError, match="no such file"):
        load_set(parse_spec("gsm8k:nowhere.jsonl"))


def test_own_columns(tmp_path):
    rows = [{"q": {"text": f"P{n}"}, "a": n} for n in range(3)]
    columns = {"prompt": "q.text", "answer": "a"}
    loaded = load_set(
        parse_spec({"kind": "math_file", "path": str(write(tmp_path, rows)), "columns": columns})
    )
    assert [(e.payload["problem"], e.answer) for e in loaded.examples] == [
        ("P0", "0"),
        ("P1", "1"),
        ("P2", "2"),
    ]


def test_large_and_broken_tests_are_left_out_and_counted(tmp_path):
    rows = [
        {"prompt": "fine", "tests": [{"input": "1", "output": "1"}] * 5},
        {"prompt": "large", "tests": [{"input": "x" * 3000, "output": "1"}]},
        {"prompt": "broken", "tests": "{"},
        {"tests": []},
    ]
    spec = {
        "kind": "code_file",
        "path": str(write(tmp_path, rows)),
        "code": {"most_test_bytes": 1000, "most_tests": 2},
    }
    loaded = load_set(parse_spec(spec))
    assert [e.payload["problem"] for e in loaded.examples] == ["fine"]
    assert len(loaded.examples[0].payload["tests"].tests) == 2
    report = loaded.report
    assert (report.too_large_tests, report.unreadable_tests, report.without_prompt) == (1, 1, 1)


def test_contest_dates(tmp_path):
    row = SCHEMAS["livecodebench"][0][0]
    dates = ("2024-12-31", "2025-01-01", "2025-06-30", "2025-07-01")
    rows = [{**row, "question_content": d, "contest_date": d + "T00:00:00"} for d in dates]
    spec = {"kind": "dataset", "name": "livecodebench", "path": str(write(tmp_path, rows))}
    loaded = load_set(parse_spec({**spec, "contest_from": "2025-01-01", "contest_until": "2025-06-30"}))
    assert [e.payload["problem"] for e in loaded.examples] == ["2025-01-01", "2025-06-30"]
    assert loaded.report.outside_dates == 2


def test_hub_that_is_not_reachable_is_one_line():
    with pytest.raises(UserError, match="by path") as caught:
        load_set(parse_spec("math500"))
    assert "\n" not in str(caught.value)


# --- the split


def examples(prompts, domain="d"):
    return [Example(prompt_id(p), p, "1", domain) for p in prompts]


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


# --- specs


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("arithmetic,max_operations=3", {"kind": "arithmetic", "options": {"max_operations": 3}}),
        ("gsm8k", {"kind": "dataset", "name": "gsm8k"}),
        (
            "gsm8k:a.parquet,held_out_prompts=7",
            {"kind": "dataset", "path": "a.parquet", "held_out_prompts": 7},
        ),
        ("math:x.jsonl", {"kind": "math_file", "path": "x.jsonl"}),
        ("code:x.jsonl", {"kind": "code_file", "path": "x.jsonl"}),
        (
            "reasoning_gym:chain_sum,min_terms=2",
            {"kind": "reasoning_gym", "name": "chain_sum", "options": {"min_terms": 2}},
        ),
    ],
)
def test_short_strings(text, wanted):
    spec = parse_spec(text).model_dump()
    assert {key: spec[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kind": "nonsense"}, "kind"),
        ({"kind": "arithmetic", "helf_out": 3}, "helf_out"),
        ({"kind": "dataset"}, "needs the field 'name'"),
        ({"kind": "arithmetic", "held_out_prompts": -1}, "held_out_prompts"),
        ("nonsense:x", "no such file|is unknown"),
        ("gsm8k,held_out", "field=value"),
        ("missing.yaml", "can't read"),
        ("arithmetic,no_such_option=1", "no_such_option"),
    ],
)
def test_mistakes_name_the_field(given, reason):
    with pytest.raises(UserError, match=reason):
        build_task(given)


def test_yaml_file(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text("kind: arithmetic\nheld_out_prompts: 5\ntrain_prompts: 9\n")
    task = build_task(str(path))
    assert (len(task.train), len(task.held_out)) == (9, 5)


def test_verifier_follows_the_domain():
    assert isinstance(build_verifier(parse_spec("gsm8k")), MathVerifier)
    code = build_verifier(
        parse_spec({"kind": "dataset", "name": "livecodebench", "code": {"unsafe_no_sandbox": True}})
    )
    assert isinstance(code, CodeVerifier)
