"""The verbs as people call them: exit statuses, JSON with stable names, figures, one line for mistakes."""

import json
import sys

import numpy as np
import pytest

from scalerl.cli import runs
from scalerl.cli.main import main
from scalerl.curve.sigmoid import sigmoid
from scalerl.curve.table1 import TABLE_1


@pytest.fixture
def log(tmp_path):
    """A table that scalerl.load reads: steps and a held-out pass rate."""

    def write(name="run", row="ScaleRL", seed=0):
        compute = np.arange(500, 20_001, 500)
        rate = sigmoid(compute, TABLE_1[row]) + 0.003 * np.random.default_rng(seed).standard_normal(
            len(compute)
        )
        path = tmp_path / f"{name}.csv"
        path.write_text(
            "step,eval_acc\n" + "".join(f"{c},{r:.6f}\n" for c, r in zip(compute, rate, strict=True))
        )
        return str(path)

    return write


def call(capsys, *arguments):
    old, sys.argv = sys.argv, ["scalerl", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.argv = old
    seen = capsys.readouterr()
    return stopped.value.code, seen.out, seen.err


def test_fit_json_has_stable_names_and_a_figure(capsys, log, tmp_path):
    figure = tmp_path / "fit.svg"
    code, out, _ = call(capsys, "fit", log(), "--r0", "0.3", "--until", "10000", "--plot", figure, "--json")
    value = json.loads(out)
    assert code == 0
    assert value["A"] == pytest.approx(0.61, abs=0.02)
    assert {"A", "B", "C_mid", "R0", "intervals", "identified", "why", "verdict", "window", "r0_mode"} <= set(
        value
    )
    assert value["window"][1] == 10_000
    assert figure.read_text().lstrip().startswith("<?xml")


def test_fit_table_and_example(capsys, log, monkeypatch, tmp_path):
    code, out, _ = call(capsys, "fit", log(), "--r0", "0.3")
    assert code == 0
    assert "identified: yes" in out
    monkeypatch.setattr(runs, "examples", lambda: ["tiny"])
    monkeypatch.setattr(runs, "example_path", lambda name: log(name))
    assert call(capsys, "fit", "--example", "tiny", "--r0", "0.3")[0] == 0


def test_forecast_backtest_and_plan(capsys, log):
    code, out, _ = call(
        capsys, "forecast", log(), "--r0", "0.3", "--at", "100000", "--reach", "0.7", "--json"
    )
    value = json.loads(out)
    assert code == 0
    assert value["predictions"][0]["mean"] == pytest.approx(0.61, abs=0.01)
    assert value["reach"][0]["compute"] == "inf"
    code, out, _ = call(capsys, "backtest", log(), "--r0", "0.3", "--fraction", "0.5", "--json")
    assert code == 0
    assert json.loads(out)[0]["scores"][0]["forecaster"] == "sigmoid"
    code, out, _ = call(capsys, "plan-eval", "--until", "20000", "--json")
    assert code == 0
    assert json.loads(out)["plans"][0]["half_width"] <= 0.02
    assert call(capsys, "plan-eval", "--until", "3000", "--margin", "0.001")[0] == 1


def test_compare_says_the_sentence(capsys, log):
    a, b = log("a"), log("b", "8 generations", 1)
    code, out, _ = call(capsys, "compare", f"long={a}", f"short={b}", "--r0", "0.3", "--json")
    value = json.loads(out)
    assert code == 0
    assert value["verdict"] in ("different", "equivalent", "undecided")
    assert value["spread_from"] == "prior"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit"], 2, "--example"),
        (["fit", "--example", "nowhere"], 2, "nowhere"),
        (["fit", "LOG", "--r0", "soon"], 2, "--r0"),
        (["fit", "LOG", "--from", "9", "--until", "1"], 2, "window"),
        (["fit", "LOG", "--r0", "0.3", "--until", "3000", "--require-identified"], 1, "ceiling"),
        (["fit", "LOG", "--from", "1e9"], 1, "no evaluation"),
        (["compare", "LOG"], 2, "takes two"),
        (["bench", "curve", "--parts", "all"], 2, "--parts"),
    ],
)
def test_mistakes_are_one_line_with_the_right_status(capsys, log, arguments, code, words):
    path = log()
    seen, _, err = call(capsys, *[path if a == "LOG" else a for a in arguments])
    assert seen == code
    assert words in err
    assert "Traceback" not in err
    mistakes = [
        line for line in err.splitlines() if line.startswith("scalerl: ")
    ]  # the reader says what it took
    assert len(mistakes) == 1
    assert err.splitlines()[-1] == mistakes[0]


def test_coverage_goes_on_from_what_it_has_kept(capsys, tmp_path, monkeypatch):
    from scalerl.curve import coverage

    few = [coverage.Scenario("code", True, 40, 8000.0, "white 0.003")]
    monkeypatch.setattr(coverage, "scenarios", lambda: iter(few))
    out = tmp_path / "coverage.jsonl"
    given = ["bench", "curve", "--parts", "coverage", "--json", "--out", out]
    assert call(capsys, *given, "--curves", "125")[0] == 0
    code, shown, _ = call(capsys, *given, "--curves", "250")
    assert code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["curves"] for row in rows] == [125, 125]
    (row,) = json.loads(shown)["coverage"]
    assert row["curves"] == 250
    assert row["covers_A"] == pytest.approx(coverage.measure(few[0], 250, 0).covers_A)
