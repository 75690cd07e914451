"""Data sets by name and file: small files of our own in each schema."""

import base64
import json
import pickle
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_rows import write

from scalerl.errors import UserError
from scalerl.task.catalogue import NAMED
from scalerl.task.dataset import load_set
from scalerl.task.rows import read_rows
from scalerl.task.spec import parse_spec
from scalerl.task.split import prompt_id

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
