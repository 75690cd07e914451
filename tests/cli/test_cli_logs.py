"""Verbs over other trainers' logs: one set of options, what was taken is said, unlike runs are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import scalerl

from scalerl.cli.runs import named_recipes
from scalerl.errors import UserError


def log(path: Path, ceiling: float, seed: int = 0) -> Path:
    """A log with odd field names, in percent, whose curve saturates at `ceiling`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = []
    for tick in range(1, 41):
        rate = 0.1 + (ceiling - 0.1) / (1 + (8 / tick) ** 2) + rng.normal(0, 0.004)
        rows.append({"tick": tick, "quality": 100 * rate, "time_per_step": 36.0})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


OPTIONS = ("--x", "tick", "--y", "quality", "--scale", "percent")


@pytest.mark.parametrize("verb", ["fit", "forecast", "backtest"])
def test_verbs_of_one_run_take_log_options_and_name_the_source(monkeypatch, capsys, tmp_path, verb):
    path = log(tmp_path / "a.jsonl", 0.7)
    status, out, error = scalerl(monkeypatch, capsys, verb, path, *OPTIONS, "--json")
    assert (status, error) == (0, "")
    said = json.loads(out)
    source = (said[0] if verb == "backtest" else said)["source"]
    assert (source["y"], source["x"], source["scale"], source["points"]) == ("quality", "tick", "percent", 40)
    status, out, error = scalerl(monkeypatch, capsys, verb, path, *OPTIONS)
    assert status == 0
    assert "y = quality, x = tick" in error
    assert "y = quality" not in out


@pytest.mark.parametrize("verb", ["fit", "forecast", "backtest", "compare"])
def test_a_question_exits_2_where_nobody_can_be_asked(monkeypatch, capsys, tmp_path, verb):
    places = [log(tmp_path / "a.jsonl", 0.7), log(tmp_path / "b.jsonl", 0.6)]
    given = places if verb == "compare" else places[:1]
    status, _, error = scalerl(monkeypatch, capsys, verb, *given, "--x", "tick", "--y", "quality")
    assert status == 2
    assert error.startswith("scalerl: ")
    assert "--scale" in error
    assert error.count("\n") == 1


def test_compare_tells_recipes_and_their_sources_apart(monkeypatch, capsys, tmp_path):
    good = [log(tmp_path / "good" / f"{seed}.jsonl", 0.8, seed) for seed in (1, 2)]
    plain = log(tmp_path / "plain.jsonl", 0.5, 3)
    status, out, error = scalerl(
        monkeypatch, capsys, "compare", f"good={good[0].parent}", f"plain={plain}", *OPTIONS, "--json"
    )
    assert (status, error) == (0, "")
    recipes = {recipe["name"]: recipe for recipe in json.loads(out)["recipes"]}
    paths = {name: [s["source"]["path"] for s in recipe["seeds"]] for name, recipe in recipes.items()}
    assert paths == {"good": [str(path) for path in good], "plain": [str(plain)]}
    assert recipes["good"]["A"] == pytest.approx(0.8, abs=0.02)
    assert recipes["plain"]["A"] == pytest.approx(0.5, abs=0.02)


def test_compare_refuses_unlike_devices_unless_forced(monkeypatch, capsys, tmp_path):
    records = []
    for name, kind in (("a", "H100"), ("b", "A100"), ("c", "H100")):
        place = tmp_path / "runs" / name
        status, *_ = scalerl(
            monkeypatch, capsys, "convert", log(tmp_path / f"{name}.jsonl", 0.7), place, *OPTIONS[2:],
            "--devices", f"8:{kind}", "--x", "index",
        )  # fmt: skip
        assert status == 0
        records.append(place)
    status, out, error = scalerl(monkeypatch, capsys, "compare", *records)
    assert (status, out) == (2, "")
    last = error.splitlines()[-1]
    assert all(said in last for said in ("H100 (", "A100 (", "--force"))
    for allowed in ([records[0], records[2]], [*records, "--force"]):
        status, out, _ = scalerl(monkeypatch, capsys, "compare", *allowed, "--json")
        assert status == 0
        assert [r["name"] for r in json.loads(out)["recipes"]] == [p.name for p in allowed if p != "--force"]


def test_log_options_are_refused_where_only_own_records_are(monkeypatch, capsys, tmp_path):
    for name in ("a", "b"):
        path = log(tmp_path / f"{name}.jsonl", 0.7)
        status, *_ = scalerl(monkeypatch, capsys, "convert", path, tmp_path / "r" / name, *OPTIONS)
        assert status == 0
    status, _, error = scalerl(monkeypatch, capsys, "backtest", tmp_path / "r", "--y", "quality")
    assert status == 2
    assert "--y is for other trainers' logs" in error


def test_bare_paths_are_named_by_as_much_as_tells_them_apart(tmp_path):
    for folder in ("lr=1,b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "metrics.csv").write_text("x")
    first, second = (str(tmp_path / folder / "metrics.csv") for folder in ("lr=1,b", "c"))
    assert named_recipes([first, second]) == {"lr=1,b/metrics.csv": [first], "c/metrics.csv": [second]}
    assert named_recipes([f"a={second},{second}", str(tmp_path / "c")]) == {
        "a": [second, second],
        "c": [str(tmp_path / "c")],
    }
    with pytest.raises(UserError, match="'c' is given twice"):
        named_recipes(["x/c", "x/c"])


def test_compare_on_unlike_axes_names_force(monkeypatch, capsys, tmp_path):
    places = [log(tmp_path / f"{name}.jsonl", 0.7, seed) for seed, name in enumerate("ab")]
    record = tmp_path / "record"
    status, *_ = scalerl(
        monkeypatch, capsys, "convert", places[0], record, *OPTIONS[2:], "--x", "index", "--devices", "8"
    )
    assert status == 0
    plain = tmp_path / "plain"
    status, *_ = scalerl(monkeypatch, capsys, "convert", places[1], plain, *OPTIONS[2:], "--x", "index")
    assert status == 0
    status, out, error = scalerl(monkeypatch, capsys, "compare", record, plain)
    assert (status, out) == (2, "")
    last = error.splitlines()[-1]
    assert all(said in last for said in ("device_hours", "steps", "--axis", "--force"))
    status, out, _ = scalerl(monkeypatch, capsys, "compare", record, plain, "--force", "--json")
    assert status == 0
    assert [recipe["name"] for recipe in json.loads(out)["recipes"]] == ["record", "plain"]
    status, *_ = scalerl(monkeypatch, capsys, "compare", record, plain, "--axis", "steps", "--json")
    assert status == 0


def test_compare_of_one_folder_takes_each_run_in_it_as_a_recipe(monkeypatch, capsys, tmp_path):
    ceilings = {"good": 0.8, "plain": 0.5}
    places = [log(tmp_path / "logs" / f"{name}.jsonl", A) for name, A in ceilings.items()]
    status, out, _ = scalerl(monkeypatch, capsys, "compare", tmp_path / "logs", *OPTIONS, "--json")
    assert status == 0
    folder = {recipe["name"]: recipe["A"] for recipe in json.loads(out)["recipes"]}
    status, out, _ = scalerl(monkeypatch, capsys, "compare", *places, *OPTIONS, "--json")
    assert status == 0
    each = {recipe["name"]: recipe["A"] for recipe in json.loads(out)["recipes"]}
    assert folder == {name.removesuffix(".jsonl"): A for name, A in each.items()}
    assert folder == pytest.approx(ceilings, abs=0.02)


@pytest.mark.parametrize("given", ["{}", "name={}", "name={},{}"])
def test_compare_of_one_recipe_says_how_to_give_two(monkeypatch, capsys, tmp_path, given):
    place = log(tmp_path / "logs" / "a.jsonl", 0.7).parent
    text = given.replace("{}", str(place))
    status, out, error = scalerl(monkeypatch, capsys, "compare", text, *OPTIONS)
    assert (status, out) == (2, "")
    assert "FOLDER/*" in error.splitlines()[-1]
