"""The quickstart study: what it plans, that it resumes after a kill, and what its report says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import scalerl
from scalerl.errors import UserError
from scalerl.recipe.diff import diff
from scalerl.recipe.load import load_recipe
from scalerl.recipe.named import NAMES
from scalerl.study.plan import StudyPlan
from scalerl.study.plan_file import load_plan
from scalerl.study.quickstart import at_quickstart_sizes, quickstart_study
from scalerl.study.result import study_results

SMALL = ("--steps", "48", "--seed", "5")


def study(out: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "scalerl", "study", "quickstart", "--out", str(out), *SMALL, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", NAMES)
def test_small_sizes_change_no_axis(name):
    recipe = load_recipe(name)
    changed = {difference.axis for difference in diff(recipe, at_quickstart_sizes(recipe))}
    assert changed <= {"sizes", "optimizer", "length_control"}


def test_the_plan_names_runs_by_recipe_and_seed():
    plan = quickstart_study(seeds=(1, 2))
    assert [run.name for run in plan.runs] == [
        "scalerl-seed1",
        "deepseek_grpo-seed1",
        "scalerl-seed2",
        "deepseek_grpo-seed2",
    ]
    run = plan.runs[0]
    first_half = sum(run.evaluation.due(step) for step in range(1, run.steps // 2))
    assert first_half >= 30
    with pytest.raises(ValueError, match="share a name"):
        StudyPlan(name="twice", runs=(run, run))


def test_a_study_file_says_what_runs_share(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "name: mine\nshared: {recipe: scalerl, task: {kind: arithmetic}, steps: 3}\n"
        "runs: [{name: a}, {name: b, seed: 2}]\n"
    )
    plan = load_plan(path)
    assert [(run.name, run.seed, run.steps) for run in plan.runs] == [("a", 0, 3), ("b", 2, 3)]
    path.write_text("name: mine\nruns: [{name: a}]\n")
    with pytest.raises(UserError, match=r"runs\.0: field recipe"):
        load_plan(path)
    path.write_text("name: mine\nruns: []\n")
    with pytest.raises(UserError, match="at least one"):
        load_plan(path)


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.is_file() else 0


def test_a_killed_study_goes_on_and_says_so(tmp_path):
    first = study(tmp_path, "--recipe", "scalerl")
    record = tmp_path / "runs" / "scalerl-seed5"
    deadline = time.monotonic() + 120
    while lines(record / "steps.jsonl") < 32 and time.monotonic() < deadline:
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert 32 <= lines(record / "steps.jsonl") < 48
    second = study(tmp_path, "--recipe", "scalerl")
    out, error = second.communicate(timeout=200)
    assert second.returncode == 0, error
    assert "going on with a study that was begun (1 of 1 runs)" in error
    assert "from its checkpoint at step 30" in error
    assert "report.html" in out
    assert [row["step"] for row in scalerl.load(record).steps] == list(range(1, 49))
    whole = study(tmp_path / "whole", "--recipe", "scalerl", "--json")
    result = json.loads(whole.communicate(timeout=200)[0])
    assert Path(result["report"]).is_file()
    uninterrupted = scalerl.load(tmp_path / "whole" / "runs" / "scalerl-seed5")
    resumed = scalerl.load(record)
    assert resumed.steps == uninterrupted.steps
    assert resumed.evaluations == uninterrupted.evaluations
    check_report(tmp_path / "whole", result)


def check_report(folder: Path, result: dict) -> None:
    """The report holds the forecast that the JSON holds, and figures that can be looked at."""
    page = (folder / "report.html").read_text()
    (run,) = result["runs"]
    assert f"{run['forecast']:.3f}" in page
    assert "<svg" in page
    png = (folder / "figures" / "scalerl-seed5.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert run["error"] == pytest.approx(run["forecast"] - run["observed"])


def test_a_study_of_something_unknown_is_refused(tmp_path):
    done = study(tmp_path, "--recipe", "scalrl")
    _, error = done.communicate(timeout=60)
    assert done.returncode == 2
    assert "did you mean 'scalerl'" in error
    assert not os.listdir(tmp_path)


def test_a_study_without_records_has_no_results(tmp_path):
    with pytest.raises(UserError, match="scalerl-seed1"):
        study_results(quickstart_study(recipes=("scalerl",), seeds=(1,)), tmp_path)


def test_a_study_too_short_for_a_forecast_says_so(tmp_path):
    """Twelve steps give three evaluations after the start: nothing to fit, and still a table and a report."""
    short = [
        sys.executable,
        "-m",
        "scalerl",
        "study",
        "quickstart",
        "--out",
        str(tmp_path),
        "--recipe",
        "scalerl",
    ]
    done = subprocess.run([*short, "--steps", "12"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "a fit needs at least" in done.stdout
    assert "report.html" in done.stdout
    assert "Without a forecast" in (tmp_path / "report.html").read_text()
