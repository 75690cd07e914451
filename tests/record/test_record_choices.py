# ruff: noqa: E501 - lines of logs are long
"""Which fields of a log are taken for compute and pass rate, on which scale, and what is asked."""

from __future__ import annotations

import json

import pytest
from record_logs import EXPECTED, TABLE, put, trainer_state, xy

import scalerl
from scalerl.errors import UserError
from scalerl.record.choice import ChoiceNeeded
from scalerl.record.load import load_all


def test_trl_state_with_evaluations_under_the_steps_of_training(tmp_path):
    entries = []
    for step in range(1, 9):
        entries.append({"step": step, "reward": 0.1, "num_tokens": 100.0 * step, "step_time": 2.0})
        if step % 2 == 0:
            entries.append({"step": step, "eval_reward": step / 10, "eval_loss": 0.0})
    path = put(tmp_path, trainer_state(entries))
    run = scalerl.load(path)
    assert (run.provenance.y, run.provenance.x, run.provenance.axis) == (
        "eval_reward",
        "num_tokens",
        "tokens_trained",
    )
    assert xy(path) == ([200, 400, 600, 800], [0.2, 0.4, 0.6, 0.8])
    hours = scalerl.load(path, devices="64+16").curve()
    assert hours.compute.tolist() == pytest.approx([2 * s * 80 / 3600 for s in (2, 4, 6, 8)])
    assert scalerl.load(path, params=1e9).curve().compute[0] == 8e9 * 200
    assert run.header.label("eval_reward") == "held-out pass rate"


def test_mixed_frequencies_are_interpolated(tmp_path):
    rows = [{"step": s, "num_tokens": 10 * s} for s in (10, 20, 30)] + [
        {"step": s, "eval/acc": s / 100} for s in (5, 15, 25, 29)
    ]
    path = put(tmp_path, json.dumps(sorted(rows, key=lambda r: r["step"])))
    assert xy(path) == ([50, 150, 250, 290], [0.05, 0.15, 0.25, 0.29])


def test_train_reward_is_a_labelled_fallback(tmp_path):
    path = put(tmp_path, trainer_state([{"step": s, "reward": s / 10} for s in range(1, 6)]))
    curve = scalerl.load(path).curve()
    assert (curve.label, curve.set) == ("train reward, not held-out", "reward")


def test_logging_every_fifth_step_counts_five_steps_a_row(tmp_path):
    path = put(tmp_path, trainer_state([{"step": s, "reward": 0.5, "step_time": 3.0} for s in (5, 10, 15)]))
    assert scalerl.load(path, devices="2").curve().compute.tolist() == pytest.approx(
        [30 / 3600, 60 / 3600, 90 / 3600]
    )


def test_a_log_that_begins_late_says_that_it_estimates(tmp_path):
    path = put(
        tmp_path, trainer_state([{"step": s, "reward": 0.5, "step_time": 2.0} for s in range(1001, 1011)])
    )
    run = scalerl.load(path, devices="1")
    assert run.curve().compute[0] == pytest.approx(1001 * 2 / 3600)
    assert "begins at step 1001" in run.provenance.guesses[0]
    assert scalerl.load(path).curve().compute[0] == 1001


def test_devices_and_params_need_their_fields(tmp_path):
    path = put(tmp_path, TABLE)
    with pytest.raises(UserError, match="--devices needs seconds per step"):
        scalerl.load(path, devices="8")
    with pytest.raises(UserError, match="--params needs token counts"):
        scalerl.load(path, params=1e9)
    with pytest.raises(UserError, match=r"--devices many: say 8, or 64"):
        scalerl.load(path, devices="many")


def test_scales_are_asked_never_guessed(tmp_path):
    percent = put(tmp_path, "step,eval_acc\n1,10\n2,20\n3,30.5\n4,41\n", "percent")
    with pytest.raises(ChoiceNeeded, match=r"10..41: percent\? say --scale percent"):
        scalerl.load(percent)
    assert xy(percent, scale="percent")[1] == [0.1, 0.2, 0.305, 0.41]
    signed = put(tmp_path, "step,eval_reward\n1,-0.5\n2,0\n3,0.5\n4,0.75\n", "signed")
    with pytest.raises(ChoiceNeeded, match="--scale pm1"):
        scalerl.load(signed)
    assert xy(signed, scale="pm1")[1] == [0.25, 0.5, 0.75, 0.875]
    assert xy(signed, scale="-1:3")[1] == [0.125, 0.25, 0.375, 0.4375]
    with pytest.raises(UserError, match=r"outside 0..1 of --scale unit"):
        scalerl.load(signed, scale="unit")
    with pytest.raises(UserError, match="--scale half: say unit, percent, pm1, or LOW:HIGH"):
        scalerl.load(signed, scale="half")


def test_unbounded_reward_names_a_field_that_is_a_rate(tmp_path):
    entries = [
        {"step": s, "reward": 1.5 * s, "rewards/length/mean": s, "rewards/right/mean": s / 10}
        for s in range(1, 6)
    ]
    with pytest.raises(
        UserError, match=r"unbounded reward or a sum.*--y with a field in 0\.\.1: rewards/right/mean"
    ):
        scalerl.load(put(tmp_path, trainer_state(entries)))


def test_a_mean_of_rewards_that_reach_beyond_the_unit_is_refused(tmp_path):
    lines = "".join(
        f"step:{s} - critic/score/mean:0.4 - critic/score/max:3.0 - critic/score/min:-3.0 - timing_s/step:1.0\n"
        for s in range(1, 6)
    )
    with pytest.raises(ChoiceNeeded, match=r"critic/score/min and critic/score/max reaches -3\.\.3"):
        scalerl.load(put(tmp_path, lines))


def test_several_held_out_sets_are_curves_of_their_own(tmp_path):
    rows = [
        {"step": s, "eval/math/accuracy": s / 10, **({"eval/code/accuracy": s / 20} if s % 2 else {})}
        for s in range(1, 9)
    ]
    path = put(tmp_path, "".join(json.dumps(r) + "\n" for r in rows))
    run = scalerl.load(path)
    assert (run.provenance.y, run.sets) == (
        "eval/math/accuracy",
        {"eval/math/accuracy": 8, "eval/code/accuracy": 4},
    )
    assert run.curve("eval/code/accuracy").compute.tolist() == [1, 3, 5, 7]
    assert run.provenance.other_y == ("eval/code/accuracy",)


def test_any_column_names_with_x_y_and_group(tmp_path):
    text = "flavour,kilo tokens,share right\n" + "".join(
        f"{f},{k},{k / 10}\n" for f in ("tea", "rum") for k in (1, 2, 3)
    )
    path = put(tmp_path, text)
    with pytest.raises(UserError, match=r"no field that could be a pass rate.*kilo tokens, share right"):
        scalerl.load(path)
    runs = load_all(path, x="kilo tokens", y="share right", group="flavour")
    assert list(runs) == ["tea", "rum"]
    curve = runs["rum"].curve()
    assert (curve.axis, curve.compute.tolist(), curve.pass_rate.tolist()) == (
        "kilo tokens",
        [1, 2, 3],
        [0.1, 0.2, 0.3],
    )
    with pytest.raises(UserError, match="no field 'share rihgt'; fields: share right"):
        scalerl.load(path, x="kilo tokens", y="share rihgt", group="flavour")


def test_evaluations_of_a_foreign_run_read_like_those_of_a_record(tmp_path):
    run = scalerl.load(put(tmp_path, TABLE))
    assert [e.pass_rate for e in run.evaluations] == EXPECTED[1]
    assert (run.evaluations[-1].step, len(run.evaluations[1:3])) == (40, 2)
    assert run.to_frame()["step"].tolist() == [10, 20, 30, 40]
    with pytest.raises(IndexError):
        run.evaluations[4]


def test_another_set_with_points_between_the_token_counts_has_steps(tmp_path):
    rows = [{"step": s, "eval/b/accuracy": s / 20, "num_tokens": 100 * s} for s in range(2, 13, 2)]
    rows += [{"step": s, "eval/a/accuracy": s / 20, "num_tokens": 100 * (s + s % 2)} for s in range(5, 13)]
    rows.sort(key=lambda row: row["step"])
    path = put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    run = scalerl.load(path, y="eval/b/accuracy")
    assert run.curve().compute.tolist() == [200, 400, 600, 800, 1000, 1200]
    other = run.curve("eval/a/accuracy")
    assert (other.axis, other.compute.tolist()) == ("steps", [5, 6, 7, 8, 9, 10, 11, 12])


@pytest.mark.parametrize("factor", [0.25, 1e30])
def test_a_token_count_that_no_record_can_hold_gives_way_to_steps(tmp_path, factor):
    rows = [{"step": s, "reward": s / 10, "num_tokens": factor * s} for s in range(1, 9)]
    run = scalerl.load(put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)))
    assert run.curve().axis == "steps"
    assert "num_tokens isn't known or doesn't grow at every point" in run.provenance.warnings[0]
