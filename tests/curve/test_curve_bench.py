"""Quick versions of `scalerl bench curve`, with room for chance; the full ones are in docs/bench-curve.md."""

import os
import subprocess
import sys

import numpy as np
import pytest

from scalerl.curve.benchmark import (
    comparison_rates,
    excess_over_grid,
    fast_grid_against_scipy,
    recovery,
)
from scalerl.curve.benchmark_joint import _case


def test_recovery_on_the_ten_rows():
    for row in recovery(40, seed=0):
        assert row.A_error <= 0.005
        assert row.B_error <= 0.1
        assert row.C_mid_relative_error <= 0.05


def test_never_above_the_source_grid_which_equals_the_scipy_loop():
    assert excess_over_grid(10, seed=0) <= 1e-9
    assert fast_grid_against_scipy(seed=0, curves=2, thin=9) <= 1e-6


def test_comparisons_are_rarely_wrong():
    for seeds in (1, 2, 3):
        assert comparison_rates(seeds, 0.0, 300, seed=0).different <= 0.05 + 0.03
        assert comparison_rates(seeds, 0.04, 300, seed=0).equivalent <= 0.05 + 0.03
    assert comparison_rates(3, 0.05, 300, seed=0).different >= 0.9


@pytest.mark.parametrize(("seeds", "spread"), [(2, 2.0), (3, 1.0)])
def test_the_three_intervals_of_a_joint_fit_hold(seeds, spread):
    for row in _case(seeds, spread, 150, np.random.default_rng(4)):
        for share in (row.this_run, row.recipe_mean, row.next_seed):
            assert share >= 0.87 - 0.06  # two standard errors at 150 trials


def in_one_thread(code: str) -> list[float]:
    """What `code` prints, in a process of its own with one BLAS thread: idle threads cost CPU time too."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **threads},
    )
    return [float(number) for number in out.stdout.split()]


def test_speed_against_the_source_procedure():
    """Ratios of CPU time only: how fast the machine is, is no matter for a test."""
    code = """
from scalerl.curve.benchmark_speed import fit_speed, throughput
seen = throughput(fit_speed(repeats=31), grid_values_of_A=10)
print(seen.faster_than_scipy_grid, seen.thousand_refits_s / seen.scipy_grid_s)
"""
    faster, refits = in_one_thread(code)
    assert refits < 0.2  # each refit of a batch 5,000 times faster; 25,000 in the full measurement
    assert faster >= 400  # one fit through `scalerl.fit`: 850 to 1,280 in full measurements


def test_memory_of_a_fit_and_of_a_thousand_refits():
    code = """
import re, numpy as np, scalerl
from pathlib import Path
from scalerl.curve.benchmark_speed import simulated
from scalerl.curve.varpro import Design, least_squares
compute, y = simulated()
scalerl.fit(compute=compute, pass_rate=y[0]).interval("A")
least_squares(Design(np.log(compute), np.ones(75)), y, np.full(1000, 0.3))
# not getrusage's peak, which a process inherits from the one that started it
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""
    (megabytes,) = in_one_thread(code)
    assert megabytes < 300
