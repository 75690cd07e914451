"""`scalerl recipes`: what it prints, and what machines read."""

import json
import subprocess
import sys

import yaml
from typer.testing import CliRunner

from scalerl.cli.recipes import app
from scalerl.recipe import NAMES, Recipe, named


def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_list_has_a_row_for_each_recipe():
    rows = run().splitlines()
    assert [row.split()[0] for row in rows[1:]] == list(NAMES)
    assert json.loads(run("--json"))["scalerl"]["recipe"] == named("scalerl").to_dict()


def test_show_prints_yaml_that_reads_back_as_the_recipe(tmp_path):
    assert Recipe.model_validate(yaml.safe_load(run("show", "scalerl"))) == named("scalerl")
    changed = json.loads(run("show", "scalerl", "--set", "loss.eps_max=8", "--json"))
    assert changed["loss"] == {"kind": "cispo", "eps_max": 8.0}


def test_show_leave_one_out():
    rows = run("show", "scalerl", "--leave-one-out").splitlines()
    assert [row.split()[0] for row in rows[1:]] == list(named("scalerl").leave_one_out())
    arms = json.loads(run("show", "scalerl", "--leave-one-out", "--json"))
    assert arms["head"]["head"] == "model"


def test_diff():
    output = run("diff", "base", "deepseek_grpo")
    assert output.split() == ["field", "base", "deepseek_grpo", "loss.eps_high", "0.26", "0.2"]
    assert json.loads(run("diff", "base", "deepseek_grpo", "--json")) == [
        {"field": "loss.eps_high", "a": 0.26, "b": 0.2}
    ]
    assert "same recipe" in run("diff", "base", "base")


def test_fields_are_all_there_with_a_meaning():
    entries = json.loads(run("fields", "--json"))
    assert all(entry["description"] for entry in entries)
    assert {entry["path"].split(".")[0] for entry in entries} == set(Recipe.model_fields)
    assert any(e["path"] == "loss.eps_max" and e["option"] == "cispo" and e["default"] == 5 for e in entries)
    assert "loss.eps_max" in run("fields")


def test_a_mistake_is_one_line_and_status_2():
    command = [sys.executable, "-m", "scalerl", "recipes", "show", "scalerl", "--set", "loss.eps_mx=8"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "did you mean 'eps_max'" in result.stderr
