"""Measuring this machine: a profile that loads, with plausible figures; never overwritten."""

from __future__ import annotations

import pytest
import torch
import typer
import yaml
from small_run import write_model
from typer.testing import CliRunner

from scalerl.cli.bench_calibrate import calibrate as command
from scalerl.loop.calibrate import best_seconds, bytes_per_second, flops_per_second
from scalerl.loop.profile import load_profile

CPU = torch.device("cpu")


def test_a_measured_profile_loads_and_knows_the_model(tmp_path):
    app = typer.Typer()
    app.command()(command)
    model, out = write_model(tmp_path / "model"), tmp_path / "here.yaml"
    arguments = ["--model", str(model), "--out", str(out), "--slots", "8"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    profile = load_profile(str(out))
    assert profile.name == "here"
    # 2 layers x (4 x 16 x 16 + 3 x 16 x 32 + 2 x 16) + 16; embeddings not counted, the head is tied to them
    assert profile.parameters == 2 * (4 * 256 + 3 * 512 + 32) + 16
    assert profile.kv_bytes_per_token == 2 * 2 * 16 * 4
    assert profile.slots_per_generator == 8
    for share in (profile.decode_bandwidth_share, profile.training_flops_share, profile.prefill_flops_share):
        assert 0 < share <= 1
    assert yaml.safe_load(out.read_text())["flops_per_second"] == profile.flops_per_second
    again = CliRunner().invoke(app, arguments)
    assert "exists" in str(again.exception)


def test_peaks_are_of_a_machines_order():
    assert 1e8 < flops_per_second(CPU, torch.float32, size=256) < 1e14
    assert 1e8 < bytes_per_second(CPU, size=1 << 22) < 1e13


def test_the_quickest_pass_counts(monkeypatch):
    moments = iter([0.0, 9.0, 10.0, 13.0, 20.0, 22.0])  # the first pass warms up
    monkeypatch.setattr("time.perf_counter", lambda: next(moments))
    assert best_seconds(lambda: None, CPU, 2) == pytest.approx(2.0)
