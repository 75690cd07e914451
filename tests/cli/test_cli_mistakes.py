"""A user's mistake: one line on stderr that names what is wrong, exit status 2, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import scalerl


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "--recipe", "scalrl", "--out", "x"], "did you mean 'scalerl'"),
        (["train", "--recipe", "scalerl", "--set", "loss.eps_mx=8", "--out", "x"], "loss.eps_mx"),
        (["train", "--recipe", "scalerl", "--set", "sizes.prompts_per_step=-3", "--out", "x"], "-3"),
        (["train", "--steps", "-1", "--out", "x"], "--steps"),
        (["train", "--config", "nowhere.yaml", "--out", "x"], "nowhere.yaml"),
        (["train", "--model", "nowhere", "--out", "x"], "nowhere"),
        (["resume", "nowhere"], "no run.json"),
        (["study", "nowhere.yaml"], "nowhere.yaml"),
        (["report", "nowhere"], "no run records"),
        (["fit", "nowhere"], "nowhere"),
        (["nonsense"], "nonsense"),
        (["sft", "--out", "x", "--demonstrations", "d.jsonl"], "give both"),
    ],
)
def test_mistakes_end_in_one_line(monkeypatch, capsys, tmp_path, arguments, says):
    monkeypatch.chdir(tmp_path)
    status, _, error = scalerl(monkeypatch, capsys, *arguments)
    assert status == 2
    assert says in error
    assert "Traceback" not in error
    lines = [line for line in error.splitlines() if line.startswith("scalerl:")]
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nrecipe: scalerl\ntask: {kind: arithmetic}\nsteps: 3\nsted: 1\n", "did you mean 'seed'"),
        ("name: a\nrecipe: scalerl\ntask: {kind: arithmetic}\nsteps: -3\n", "steps"),
        ("name: a\nrecipe: scalerl\ntask: {kind: arithmetic}\n", "steps: missing"),
        (
            "name: a\nrecipe: {from: scalerl, loss: {kind: cispoo}}\ntask: {kind: arithmetic}\nsteps: 3\n",
            "cispo",
        ),
        ("name: a\nrecipe: scalerl\ntask: {kind: arithmetik}\nsteps: 3\n", "arithmetik"),
        (
            "name: a\nrecipe: scalerl\ntask: {kind: arithmetic}\nsteps: 3\nevaluation: {every: 3}\n",
            "every_steps",
        ),
        ("- 1\n", "mapping"),
        ("a: [\n", "not readable"),
    ],
)
def test_config_mistakes_name_file_and_field(monkeypatch, capsys, tmp_path, text, says):
    path = write(tmp_path, text)
    status, _, error = scalerl(monkeypatch, capsys, "train", "--config", path, "--out", tmp_path / "x")
    assert status == 2
    assert says in error
    assert "Traceback" not in error


def test_a_config_for_another_schema_is_refused(monkeypatch, capsys, tmp_path):
    (tmp_path / "run.json").write_text('{"schema_version": 99, "name": "a"}')
    for verb in ("resume", "fit"):
        status, _, error = scalerl(monkeypatch, capsys, verb, tmp_path)
        assert status == 2
        assert "schema_version" in error


def test_the_printed_config_reads_back(monkeypatch, capsys, tmp_path):
    status, printed, _ = scalerl(
        monkeypatch, capsys, "train", "--recipe", "magistral", "--out", tmp_path / "a", "--print-config"
    )
    assert status == 0
    path = write(tmp_path, printed)
    status, again, _ = scalerl(
        monkeypatch, capsys, "train", "--config", path, "--out", tmp_path / "a", "--print-config"
    )
    assert (status, again) == (0, printed)


def test_version_and_help(monkeypatch, capsys):
    status, out, _ = scalerl(monkeypatch, capsys, "--version")
    assert (status, out.split()[0]) == (0, "scalerl")
    for verb in ("train", "study", "fit", "recipes"):
        status, out, _ = scalerl(monkeypatch, capsys, verb, "--help")
        assert status == 0
        assert "Example" in out or "COMMAND" in out
