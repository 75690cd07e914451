# ruff: noqa: E501 - rows of logs are long
"""What a newcomer's file may look like besides: each gives the right numbers, or one line with the remedy."""

from __future__ import annotations

import json

import pytest
from record_logs import EXPECTED, TABLE, put, xy

import scalerl
from scalerl.errors import UserError


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "content",
    [
        "sep=,\r\n" + TABLE,
        "sep=;\n" + TABLE.replace(",", ";").replace(".", ","),
        lines({"step": step, "eval/accuracy": f"0,{rate}"} for step, rate in ((10, "25"), (20, 5), (30, 75), (40, 875))),
    ],
    ids=["told-to-excel", "told-to-excel-in-german", "decimal-commas-in-json"],
)  # fmt: skip
def test_one_table_written_in_more_ways(tmp_path, content):
    assert xy(put(tmp_path, content)) == EXPECTED


def test_a_decimal_comma_is_no_thousands_mark(tmp_path):
    rows = [{"step": s, "eval/acc": f"0,{s}00", "num_tokens": f"{s},000"} for s in range(1, 6)]
    assert xy(put(tmp_path, lines(rows))) == ([1000, 2000, 3000, 4000, 5000], [0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    "content",
    [
        TABLE + "50,OOM\n60,\n70,n/a\n80,0.9\n",
        lines({"step": s, "eval/accuracy": r} for s, r in ((10, 0.25), (20, "0.5"), (30, 0.75), (40, 0.875), (50, "OOM"), (60, None), (70, "-"), (80, 0.9))),
    ],
    ids=["table", "json-lines"],
)  # fmt: skip
def test_text_among_the_rates_is_dropped_and_counted(tmp_path, content):
    run = scalerl.load(put(tmp_path, content))
    assert run.curve().compute.tolist() == [10, 20, 30, 40, 80]
    assert run.provenance.dropped == {"value is NaN, infinite or text": 1}


@pytest.mark.parametrize("content", ["t,q\n{}", "{}"], ids=["table", "json-lines"])
def test_text_in_a_named_field_is_dropped_and_counted(tmp_path, content):
    values = [0.1, 0.2, "broken", 0.4, "-", 0.6]
    row = "{},{}\n" if "," in content else '{{"t": {}, "q": "{}"}}\n'
    rows = "".join(row.format(t, q) for t, q in enumerate(values, 1))
    run = scalerl.load(put(tmp_path, content.format(rows)), x="t", y="q")
    assert (run.curve().compute.tolist(), run.curve().pass_rate.tolist()) == (
        [1, 2, 4, 6],
        [0.1, 0.2, 0.4, 0.6],
    )
    assert run.provenance.dropped == {"value is NaN, infinite or text": 1}


def test_text_in_a_field_that_sounds_like_a_rate_does_not_spoil_long_logs(tmp_path):
    rows = [
        {"step": s, "reward_fn": "math", "eval/accuracy": s / 2000}
        for s in range(1, 1001)
        if s % 7 or s < 500
    ]
    run = scalerl.load(put(tmp_path, lines(rows)))
    assert (run.provenance.y, run.provenance.dropped) == ("eval/accuracy", {})
    assert run.curve().compute.tolist() == [row["step"] for row in rows]


@pytest.mark.parametrize("name", ["run_id", "run", "trial", "seed"])
def test_runs_numbered_in_a_column_are_runs(tmp_path, name):
    rows = [f"{run},{step},{run * step / 100}" for run in (1, 2) for step in range(1, 9)]
    path = put(tmp_path, f"{name},step,eval/acc\n" + "\n".join(rows) + "\n")
    with pytest.raises(UserError, match="holds 2 runs: 1, 2"):
        scalerl.load(path)
    assert xy(f"{path}#2")[1] == [step / 50 for step in range(1, 9)]


def test_a_token_count_that_a_restart_began_anew_is_left_and_said(tmp_path):
    rows = [{"step": s, "reward": 0.1, "num_tokens": 100 * s} for s in range(1, 8)]
    rows += [{"step": s, "reward": 0.2, "num_tokens": 100 * (s - 4)} for s in range(5, 11)]
    run = scalerl.load(put(tmp_path, lines(rows)))
    assert run.curve().axis == "steps"
    assert run.provenance.warnings[1] == "num_tokens goes back or is negative: not taken for compute"


@pytest.mark.parametrize(
    ("place", "options", "says"),
    [
        ("log#x", {}, "holds one run, without a name; leave '#x' away"),
        ("log", {"restart": "first"}, "--restart first: say last or append"),
        ("log", {"x": "eval/accuracy"}, "can't be both compute and pass rate"),
        ("log", {"y": "step"}, "no field says at which step"),
        ("http://a.org/log", {}, "a web address; give a file or folder, or wandb:entity/project/run"),
    ],
)
def test_what_was_said_cannot_be(monkeypatch, tmp_path, place, options, says):
    put(tmp_path, TABLE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=says) as caught:
        scalerl.load(place, **options)
    assert "\n" not in str(caught.value)


def test_a_rate_that_never_has_a_number_is_named(tmp_path):
    path = put(tmp_path, lines({"step": s, "reward": None} for s in range(9)))
    with pytest.raises(UserError, match="reward holds no finite number, only NaN, infinity, null or text"):
        scalerl.load(path)
