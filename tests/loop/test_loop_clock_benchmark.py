"""What the simulated clock costs, measured."""

from __future__ import annotations

import time

import pytest
from small_run import CLOCK, config, small_task, write_model

from scalerl.loop.clock_benchmark import _Metered, costs_by_turns


def burn(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


class Work:
    ledger = "the ledger"

    def decode(self, seconds: float) -> float:
        burn(seconds)
        return seconds


def test_time_inside_the_content_is_told_apart_from_the_rest():
    metered = _Metered(Work())
    assert metered.ledger == "the ledger"
    burn(0.05)
    assert metered.decode(0.03) == 0.03
    burn(0.05)
    metered.decode(0.02)
    assert metered.until(time.process_time()) == pytest.approx(0.05, abs=0.01)


def test_both_loops_are_measured_by_turns(tmp_path):
    with small_task():
        settings = config(write_model(tmp_path / "model"), steps=4, clock=None)
        plain, timed = costs_by_turns(settings, CLOCK, tmp_path, measured_steps=2, rounds=2)
    assert [cost.clock_cpu_seconds for cost in plain] == [0.0, 0.0]
    assert all(0 < cost.clock_cpu_seconds < cost.cpu_seconds for cost in timed)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "model") == [
        "clock-0",
        "clock-1",
        "plain-0",
        "plain-1",
    ]
