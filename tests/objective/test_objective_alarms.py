"""Alarms: when they ring, that they ring once, and that their state survives a restart."""

import json
import math

import pytest

from scalerl.objective.alarms import AlarmState

CALM = {"truncated_share": 0.02, "kl_generator_trainer": 1e-3, "entropy": 1.0, "grad_norm": 0.5, "loss": 0.1}


def run(steps, state=None):
    """Observe steps; return the state and the (index, kind) of every alarm."""
    state = state or AlarmState()
    rung = []
    for index, step in enumerate(steps):
        state, alarms = state.observe({**CALM, **step})
        rung += [(index, alarm.kind) for alarm in alarms]
    return state, rung


def test_a_calm_run_rings_nothing():
    assert run([{}] * 100)[1] == []


def test_truncation_rings_at_the_20th_step_above_10_percent_and_once():
    assert run([{"truncated_share": 0.11}] * 19)[1] == []
    assert run([{"truncated_share": 0.11}] * 40)[1] == [(19, "truncation")]
    interrupted = (
        [{"truncated_share": 0.11}] * 19 + [{"truncated_share": 0.1}] + [{"truncated_share": 0.2}] * 20
    )
    assert run(interrupted)[1] == [(39, "truncation")]
    twice = [{"truncated_share": 0.2}] * 25 + [{}] + [{"truncated_share": 0.2}] * 20
    assert run(twice)[1] == [(19, "truncation"), (45, "truncation")]


def test_mismatch_rings_when_its_mean_has_grown_4_fold_and_is_not_tiny():
    grown = [{}] * 20 + [{"kl_generator_trainer": 5e-3}] * 20
    # mean of the last 20 = (20 - n) 1e-3 + n 5e-3 over 20 > 4e-3 from n = 16
    assert run(grown)[1] == [(35, "mismatch")]
    tiny = [{"kl_generator_trainer": 1e-6}] * 20 + [{"kl_generator_trainer": 5e-5}] * 40
    assert run(tiny)[1] == []


def test_entropy_collapse():
    state, rung = run([{}] * 20 + [{"entropy": 0.05}] * 25)
    assert [kind for _, kind in rung] == ["entropy"]
    assert rung[0][0] == 38  # (1 n + 0.05 (20 - n)) / 20 < 0.1 from n = 1: 19 collapsed steps
    assert state.on == {"entropy"}


@pytest.mark.parametrize("bad", [{"grad_norm": math.nan}, {"grad_norm": math.inf}, {"loss": math.nan}])
def test_nan_steps_are_counted_and_five_in_a_row_stop(bad):
    state = AlarmState()
    for n in range(1, 5):
        state, alarms = state.observe({**CALM, **bad})
        assert [alarm.stop for alarm in alarms] == ([False] if n == 1 else [])
        assert state.skipped_steps == n
    _, (alarm,) = state.observe({**CALM, **bad})
    assert alarm.stop
    assert "5 steps in a row" in alarm.message
    state, alarms = state.observe(CALM)
    assert (state.skipped_in_a_row, state.skipped_steps, alarms) == (0, 4, ())


def test_state_survives_json_and_missing_numbers_are_no_alarm():
    steps = [{"truncated_share": 0.2, "entropy": 1 - i / 100} for i in range(30)]
    state, _ = run(steps)
    restored = AlarmState.from_state_dict(json.loads(json.dumps(state.state_dict())))
    assert restored == state
    assert run([{}] * 30, restored)[1] == run([{}] * 30, state)[1]
    state, alarms = AlarmState().observe({})
    assert alarms == ()
    assert state == AlarmState()
