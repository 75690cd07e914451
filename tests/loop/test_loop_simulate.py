"""Simulation without learning: lengths as stated, measures that add up, the command line."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from scalerl.loop.lengths import LogNormalLengths
from scalerl.loop.profile import load_profile
from scalerl.loop.simulate import Scenario, check_claim, scaled, simulate, splits
from scalerl.loop.timeline import Timeline
from scalerl.recipe.axes import Pipeline, PpoOffPolicy

HEAVY = LogNormalLengths(mean=8000, cv=0.7, cap=14000)


def _scenario(**named) -> Scenario:
    fields = {
        "profile": load_profile("node-8xh200"),
        "schedule": Pipeline(k=2),
        "lengths": LogNormalLengths(mean=400, cv=0.7, cap=700),
        "prompts_per_step": 6,
        "generations_per_prompt": 8,
        "prompt_tokens": 32,
        "steps": 10,
    }
    return Scenario(**{**fields, **named})


def test_lengths_have_the_stated_mean_spread_and_cap():
    uncut = LogNormalLengths(mean=8000, cv=0.7, cap=10**9)
    drawn = np.array([uncut.draw(0, group, 16) for group in range(4000)]).ravel()
    assert drawn.mean() == pytest.approx(8000, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(0.7, rel=0.05)
    cut = np.array([HEAVY.draw(0, group, 16) for group in range(4000)]).ravel()
    assert cut.max() == 14000
    assert (cut == np.minimum(drawn, 14000)).all()
    assert HEAVY.label.startswith("synthetic")
    assert set(LogNormalLengths(50, 0.0, 100).draw(0, 3, 5)) == {50}


def test_measures_are_consistent():
    scenario = _scenario()
    found = simulate(scenario)
    devices = scenario.profile.devices
    assert found.steps == 10
    assert found.steps_per_device_hour == pytest.approx(3600 / (found.seconds_per_step * devices))
    weighted = (6 * found.generator_idle_share + 2 * found.trainer_idle_share) / 8
    assert found.idle_share == pytest.approx(weighted)
    busy = 1 - found.trainer_idle_share
    assert busy * found.seconds_per_step == pytest.approx(found.training_seconds_per_step, rel=0.15)
    assert found.staleness_max <= 2
    assert simulate(scenario) == found


def test_steps_are_whole_turns():
    assert simulate(_scenario(schedule=PpoOffPolicy(k=4), steps=10)).steps == 12


def test_the_sources_claim_holds_on_its_profile():
    """Recorded as measured: PPO-off-policy-8 idles more, PipelineRL-8 makes more steps per device-hour."""
    scenario = Scenario(load_profile("source-80"), Pipeline(k=8), HEAVY, steps=16)
    began = time.process_time()
    claim = check_claim(scenario, 8)
    spent = time.process_time() - began
    assert claim.ppo_idles_more
    assert claim.pipeline_steps_more
    assert claim.pipeline.idle_share < 0.1 < 0.4 < claim.ppo.idle_share
    assert 1.5 < claim.speedup < 3.0
    assert spent < 20, "64 steps with 4,096 slots; 1 to 2 s on a free core"


def test_a_faster_trainer_shortens_steps_that_wait_for_it():
    scenario = _scenario()
    halved, doubled = (simulate(scaled(scenario, "training_flops_share", x)) for x in (0.5, 2.0))
    assert halved.training_seconds_per_step == pytest.approx(4 * doubled.training_seconds_per_step, rel=0.1)
    assert scaled(scenario, "training_flops_share", 10.0).profile.training_flops_share == 1.0
    assert scaled(scenario, "slots_per_generator", 0.5).profile.slots_per_generator == 32


def test_splits_keep_the_devices_and_hold_the_profiles_own():
    found = splits(_scenario())
    assert {each.profile.devices for each in found} == {8}
    assert [each.profile.trainers for each in found] == [1, 2, 3, 4]


def test_timeline_counts_whom_it_saw():
    line = Timeline()
    line("generator", 1, 0.0, 4.5, 10)
    line("generator", 1, 4.5, 9.0, 20)
    line("trainer", 0, 0.0, 1.0, 3)
    load = line.load("generator", 2, 0.0, 9.0)
    assert load[0].sum() == 0
    assert load[1].mean() == pytest.approx(15.0)
    assert load[1, 0] == pytest.approx(10.0)
    assert load[1, -1] == pytest.approx(20.0)
    assert line.load("generator", 2, 4.5, 9.0)[1].mean() == pytest.approx(20.0)


def _run(*arguments):
    import typer

    from scalerl.cli.simulate import simulate as command

    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*arguments])


SMALL = (
    *("--profile", "node-8xh200", "--k", "2", "--prompts-per-step", "6", "--generations-per-prompt", "8"),
    *("--mean-length", "400", "--length-cap", "700", "--prompt-tokens", "32", "--steps", "4"),
)


def test_command_prints_the_verdict_and_writes_the_figure(tmp_path):
    figure = tmp_path / "timeline.png"
    result = _run(*SMALL, "--no-sweep", "--no-sensitivity", "--figure", str(figure))
    assert result.exit_code == 0, result.output
    assert "Does PPO-off-policy-2 idle more than PipelineRL-2?" in result.output
    assert "synthetic" in result.output
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_command_json_has_sweeps_and_sensitivity():
    result = _run(*SMALL, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["schedule"] for row in found["k_sweep"]][:2] == ["PipelineRL-1", "PipelineRL-2"]
    assert len(found["k_sweep"]) == 10
    assert len(found["split_sweep"]) == 8
    assert {(case["figure"], case["factor"]) for case in found["sensitivity"]} >= {("parameters", 0.5)}
    assert len(found["sensitivity"]) == 24
    assert found["speedup"] == pytest.approx(
        found["pipeline"]["steps_per_device_hour"] / found["ppo_off_policy"]["steps_per_device_hour"]
    )


def test_scenario_labels():
    assert _scenario().label == "PipelineRL-2"
    assert replace(_scenario(), schedule=PpoOffPolicy(k=8)).label == "PPO-off-policy-8"
