# ruff: noqa: E501 - lists of names
"""Field names of the trainers' own sources, numbers as people write them, and the questions at a terminal."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalerl
from scalerl.errors import UserError
from scalerl.record.fields import preference, role_of
from scalerl.record.numbers import has_decimal_comma, parse_duration, parse_number
from scalerl.record.restarts import resolve
from scalerl.record.scale import bounds

ROLES = {
    "step": "step training/global_step train/global_step trainer/global_step _step Step global_step/max_steps "
    "current_steps progress/batch iteration",
    "train": "reward rewards/f/mean rewards/f critic/score/mean critic/rewards/mean critic_score_mean train/reward "
    "env/all/reward/total env/all/correct reward/avg_raw_reward rollout/raw_reward scores rl/reward "
    "ppo_actor/task_reward/avg actor/math/success_mean train/math/agent/reward/mean reward_avg mean_reward",
    "held_out": "eval_reward eval/reward eval_rewards/f/mean val-core/gsm8k/acc/mean@16 val-core/a/b/reward/mean@1 "
    "val/test_score/math val/success_rate val-core_x_acc_mean@1 test/env/all/correct validation/accuracy "
    "eval/aime/avg@16 eval/gsm8k/avg_score eval/aime-2024 eval_gsm8k_pass1 eval/scores eval/pass_at_1 "
    "eval-rollout/reward eval_acc heldout_acc",
    "tokens_total": "num_tokens train/num_tokens val/num_total_tokens",
    "tokens_step": "perf/total_num_tokens perf_total_num_tokens env/all/total_ac_tokens train/global_valid_toks",
    "seconds_step": "timing_s/step timing_s_step perf/time_per_step step_time time/total time/step timing/step "
    "timing/step_total perf/step_time",
    "seconds_total": "_runtime eval/time",
    "seconds_either": "elapsed_time",
    "timestamp": "_timestamp timestamp",
    "group": "run_name method seed condition",
}
NO_ROLE = (
    "reward_std_x loss eval_loss kl entropy grad_norm eval_runtime eval_samples_per_second val-aux/num_turns/mean "
    "eval/completions/mean_length val-core/gsm8k/acc/best@16/mean val-core/gsm8k/acc/maj@16/mean eval/format_rate "
    "frac_reward_zero_std total_flos learning_rate epoch group_reward_all_zero_rate"
)


@pytest.mark.parametrize(("role", "name"), [(r, n) for r, names in ROLES.items() for n in names.split()])
def test_known_fields(role, name):
    assert role_of(name) == role


@pytest.mark.parametrize("name", NO_ROLE.split())
def test_fields_that_are_no_pass_rates(name):
    assert role_of(name) is None or role_of(name) == "range"


def test_preferences_among_fields_of_one_role():
    assert preference("critic/score/mean") < preference("critic/rewards/mean")
    assert preference("reward") < preference("rewards/correctness/mean")
    assert preference("rollout/raw_reward") < preference("rollout/rewards")
    assert preference("val-core/m/acc/mean@16") < preference("val-core/m/reward/mean@16")


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("1.5", ".", 1.5), (" '0.3' ", ".", 0.3), ("1,234.5", ".", 1234.5), ("12,345", ".", 12345.0),
        ("0,53", ",", 0.53), ("1.234,5", ",", 1234.5), ("1.234", ",", 1234.0), ("0.5", ",", 0.5),
        ("1 234", ".", 1234.0), ("1'234'567", ".", 1234567.0), ("50%", ".", 0.5), ("np.float64(0.25)", ".", 0.25),
        ("tensor(0.5, device='cuda')", ".", 0.5), ("1e3", ".", 1000.0), ("1_000", ".", 1000.0),
        ("", ".", None), ("None", ".", None), ("abc", ".", None), ("1,2,3", ".", None), ("1_0", ".", None),
    ],
)  # fmt: skip
def test_numbers(text, decimal, value):
    assert parse_number(text, decimal) == value


@given(st.floats(allow_nan=False))
def test_any_printed_float_is_read_back(value):
    assert parse_number(repr(value)) == value


def test_nan_is_a_number_and_commas_are_told_apart():
    assert math.isnan(parse_number("nan"))
    assert [has_decimal_comma(c) for c in ("0,53", "1.234,5", "3,14159", "1,234", "12,345,678", "5", "a,b")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m 49s", 949.0), ("3 days, 17:51:32", 323492.0), ("1:02:03", 3723.0), ("40.70s", 40.7), ("2h 5m", 7500.0),
        ("12.5", 12.5), ("250ms", 0.25), ("soon", None), ("5 apples", None),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.sampled_from(["last", "append"]))
def test_restarts_always_give_growing_steps_of_points_that_are_there(steps, restart):
    import numpy as np

    done = resolve(np.array(steps, dtype=float), restart, "x")
    assert bool(np.all(np.diff(done.step) > 0))
    assert len(set(done.kept.tolist())) == len(done.kept) <= len(steps)
    assert len(done.kept) + sum(done.dropped.values()) == len(steps)
    if restart == "last" and not any("backwards" in note for note in done.notes):
        assert done.step.tolist() == [steps[i] for i in done.kept]


def test_scales():
    assert [bounds(s) for s in ("unit", "percent", "pm1", "0:2", "-0.5:1.5")] == [
        (0, 1), (0, 100), (-1, 1), (0, 2), (-0.5, 1.5),
    ]  # fmt: skip
    with pytest.raises(UserError, match="LOW:HIGH"):
        bounds("2:1")


def test_questions_are_asked_at_a_terminal_only(tmp_path, monkeypatch):
    from scalerl.cli import ask

    path = tmp_path / "p.csv"
    path.write_text("run,step,eval_acc\n" + "".join(f"{r},{s},{10 * s}\n" for r in "ab" for s in range(1, 6)))
    with pytest.raises(UserError, match="holds 2 runs"):
        ask.load_asking(str(path))
    monkeypatch.setattr(ask.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(
        ask.sys, "stderr", SimpleNamespace(isatty=lambda: True, write=lambda s: None, flush=lambda: None)
    )
    answers = iter(["b", "percent"])
    monkeypatch.setattr("typer.prompt", lambda *args, **kwargs: next(answers))
    assert ask.load_asking(str(path)).curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_wandb_run_by_path(monkeypatch):
    rows = [{"_step": s, "train/global_step": s, "eval/accuracy": s / 10} for s in range(1, 6)]

    def run(name):
        if name != "me/project/abc":
            raise ValueError("no such run")
        return SimpleNamespace(scan_history=lambda: iter(rows))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=lambda: SimpleNamespace(run=run)))
    loaded = scalerl.load("wandb:me/project/abc")
    assert loaded.curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    with pytest.raises(UserError, match=r"no such run.*logged in"):
        scalerl.load("wandb:me/project/other")
    with pytest.raises(UserError, match="say wandb:entity/project/run"):
        scalerl.load("wandb:abc")


def test_the_benchmark_measures_a_log_of_each_format(tmp_path):
    from scalerl.record.benchmark import FORMATS, measure, write_synthetic

    for name in FORMATS:
        write_synthetic(tmp_path / "log", name, 0.2)
        assert len(scalerl.load(tmp_path / "log").curve()) > 5
    speed = measure(tmp_path, "JSON lines", 0.2)
    assert (speed.megabytes, speed.points > 5) == (pytest.approx(0.2, rel=0.1), True)
    assert speed.cpu_seconds > 0
    assert speed.peak_megabytes > 10
