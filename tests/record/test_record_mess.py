# ruff: noqa: E501 - lines of logs are long
"""The mess of real life in small files of our own: encodings, marks, restarts, tears, scales."""

from __future__ import annotations

import json

import numpy as np
import pytest

import scalerl
from scalerl.errors import UserError
from scalerl.record.choice import ChoiceNeeded
from scalerl.record.load import load_all


def put(tmp_path, content, name="log"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def xy(path, **options):
    curve = scalerl.load(path, **options).curve()
    return curve.compute.tolist(), curve.pass_rate.tolist()


TABLE = "step,eval/accuracy\n10,0.25\n20,0.5\n30,0.75\n40,0.875\n"
EXPECTED = ([10.0, 20.0, 30.0, 40.0], [0.25, 0.5, 0.75, 0.875])


@pytest.mark.parametrize(
    "content",
    [
        TABLE.encode(),
        b"\xef\xbb\xbf" + TABLE.encode(),
        TABLE.encode("utf-16"),
        TABLE.encode("utf-16-le"),
        TABLE.encode("utf-16-be"),
        TABLE.replace("\n", "\r\n").encode(),
        TABLE.replace("\n", "\r").encode(),
        TABLE.replace(",", "\t").encode(),
        TABLE.replace(",", ";").encode(),
        TABLE.replace(",", ";").replace(".", ",").encode(),
        TABLE.replace(",", "|").encode(),
        b'"step","eval/accuracy"\n'
        + b"".join(
            b'"%d","%s"\n' % (s, r) for s, r in ((10, b"0.25"), (20, b"0.5"), (30, b"0.75"), (40, b"0.875"))
        ),
        b"# a comment\n\n" + TABLE.encode(),
        TABLE.rstrip("\n").encode(),
        b"step,eval/accuracy,note\n10,25%,a\n20,50 %,b\n30,75%,c\n40,87.5%,d\n",
    ],
    ids=[
        "plain",
        "bom",
        "utf16",
        "utf16le",
        "utf16be",
        "crlf",
        "cr",
        "tab",
        "semicolon",
        "comma-decimals",
        "bar",
        "quoted",
        "comment",
        "no-newline",
        "percent-signs",
    ],
)
def test_one_table_written_in_many_ways(tmp_path, content):
    assert xy(put(tmp_path, content)) == EXPECTED


def test_thousands_separators(tmp_path):
    text = (
        'step,num_tokens,eval/accuracy\n1,"1,000",0.1\n2,"12,500",0.2\n3,"1,250,000",0.3\n4,"2,000,000",0.4\n'
    )
    assert xy(put(tmp_path, text))[0] == [1000.0, 12500.0, 1250000.0, 2000000.0]
    german = "step;num_tokens;eval/accuracy\n1;1.000;0,1\n2;12.500;0,2\n3;1.250.000;0,3\n4;2.000.000;0,4\n"
    assert xy(put(tmp_path, german)) == ([1000.0, 12500.0, 1250000.0, 2000000.0], [0.1, 0.2, 0.3, 0.4])


def test_nan_is_dropped_and_counted(tmp_path):
    text = TABLE + "50,nan\n60,NaN\n70,\n80,inf\n90,0.9\n"
    run = scalerl.load(put(tmp_path, text))
    assert run.curve().compute.tolist() == [10, 20, 30, 40, 90]
    assert run.provenance.dropped == {"value is NaN or infinite": 3}


def test_json_lines_with_nan_strings_and_nesting(tmp_path):
    lines = [
        '{"step": 1, "data": {"val-core/gsm8k/acc/mean@16": 0.1, "critic/score/mean": NaN}}',
        '{"step": "2", "data": {"val-core/gsm8k/acc/mean@16": "0.2"}}',
        '{"step": 3, "data": {"val-core/gsm8k/acc/mean@16": null}}',
        '{"step": 4, "data": {"val-core/gsm8k/acc/mean@16": 0.4}}',
        '{"step": 5, "data": {"val-core/gsm8k/acc/mean@16": 0.5}}',
    ]
    run = scalerl.load(put(tmp_path, "\n".join(lines), "odd.json"))
    assert run.provenance.format == "verl JSON lines"
    assert run.provenance.y == "val-core/gsm8k/acc/mean@16"
    assert (run.curve().compute.tolist(), run.curve().pass_rate.tolist()) == (
        [1, 2, 4, 5],
        [0.1, 0.2, 0.4, 0.5],
    )


def test_torn_last_line_of_json_lines(tmp_path):
    text = "".join(f'{{"step": {s}, "eval/acc": 0.{s}}}\n' for s in range(1, 6)) + '{"step": 6, "eval/a'
    run = scalerl.load(put(tmp_path, text))
    assert (len(run.curve()), run.provenance.dropped) == (5, {"last line torn by a crash": 1})


def test_resumed_run_the_last_segment_counts_and_says_so(tmp_path):
    rows = [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (3, 0.35), (4, 0.45), (5, 0.5)]
    text = "".join(f'{{"step": {s}, "eval/acc": {r}}}\n' for s, r in rows)
    run = scalerl.load(put(tmp_path, text))
    assert run.curve().pass_rate.tolist() == [0.1, 0.2, 0.35, 0.45, 0.5]
    assert run.provenance.dropped == {"superseded after a restart": 2}
    assert "resumes at step 3 after 4" in run.provenance.warnings[0]


def test_start_over_that_ends_early_is_asked_about(tmp_path):
    rows = [(s, s / 100) for s in range(1, 11)] + [(s, 0.5 + s / 100) for s in range(1, 4)]
    path = put(tmp_path, "".join(f'{{"step": {s}, "eval/acc": {r}}}\n' for s, r in rows))
    with pytest.raises(ChoiceNeeded, match=r"--restart last .*--restart append") as caught:
        scalerl.load(path)
    assert (caught.value.option, caught.value.choices) == ("restart", ("last", "append"))
    assert xy(path, restart="last") == ([1, 2, 3], [0.51, 0.52, 0.53])
    assert xy(path, restart="append")[0] == list(range(1, 14))


def test_repeated_steps_and_falling_order(tmp_path):
    twice = "step,eval/acc\n1,0.1\n2,0.2\n2,0.25\n3,0.3\n4,0.4\n"
    assert xy(put(tmp_path, twice)) == ([1, 2, 3, 4], [0.1, 0.25, 0.3, 0.4])
    falling = "step,eval/acc\n4,0.4\n3,0.3\n2,0.2\n1,0.1\n"
    run = scalerl.load(put(tmp_path, falling))
    assert run.curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert "backwards" in run.provenance.warnings[0]


def trainer_state(entries):
    return json.dumps({"best_metric": None, "global_step": 9, "log_history": entries, "max_steps": 9})


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


def test_verl_console_colours_prefixes_numpy_and_broken_lines(tmp_path):
    text = (
        "(TaskRunner pid=1) Training Progress: 0%|\n"
        "step:0 - val-core/math/acc/mean@16:0.1\n"
        "\x1b[36m(TaskRunner pid=1)\x1b[0m step:1 - actor/lr:np.float64(1e-06) - training/global_step:1 - critic/score/mean:0.25 - perf/total_num_tokens:100\n"
        "(Worker pid=2) some other output - of a worker\n"
        "\x1b[36m(TaskRunner pid=1)\x1b[0m step:2 - actor/lr:1e-06 - critic/score/mean:0.\n"
        "\x1b[36m(TaskRunner pid=1)\x1b[0m 375 - perf/total_num_tokens:200\n"
        "step:3 - critic/score/mean:np.float64(0.5) - perf/total_num_tokens:np.int64(300) - val-core/math/acc/mean@16:0.4\n"
        "step:4 - critic/score/mean:0.625 - perf/total_num_tokens:400 - critic/rewards/mean:0.6"
    )
    path = put(tmp_path, text)
    run = scalerl.load(path)
    assert run.provenance.format == "verl console log"
    assert xy(path) == ([100, 300, 600, 1000], [0.25, 0.375, 0.5, 0.625])
    assert "1 lines that were broken in the middle" in " ".join(run.provenance.warnings)
    held_out = scalerl.load(path, y="val-core/math/acc/mean@16")
    assert held_out.curve().r0 == 0.1
    assert held_out.curve().compute.tolist() == [0, 600]


def test_trl_console_of_strings_with_a_progress_bar(tmp_path):
    line = "\r {0}%|# | {1}/40 [00:13<1:09, 13.9s/it]\r       \r{{'loss': '0.1', 'num_tokens': '{2}', 'reward': '0.{1}', 'epoch': '0.0'}}"
    text = (
        "loading\n"
        + "\n".join(line.format(s, s, f"{s}e+03") for s in (10, 20, 30))
        + "\n{'loss': '0.1', 'rew"
    )
    path = put(tmp_path, text)
    run = scalerl.load(path)
    assert xy(path) == ([10000, 20000, 30000], [0.10, 0.20, 0.30])
    assert run.curve(axis="steps").compute.tolist() == [10, 20, 30]
    assert run.provenance.guesses == ("no step in the log: steps from its progress bar (of 40)",)
    assert run.provenance.dropped == {"line torn before its end": 1}


def test_trl_console_without_a_bar_counts_its_lines(tmp_path):
    text = (
        "".join(f"{{'loss': 0.1, 'reward': 0.{s}}}\n" for s in range(1, 5))
        + "{'eval_reward': 0.5, 'eval_loss': 1.0}\n"
    )
    run = scalerl.load(put(tmp_path, text))
    assert run.curve().compute.tolist() == [1, 2, 3, 4]
    assert "counted as steps 1, 2" in run.provenance.guesses[1]


def test_slime_console(tmp_path):
    text = "".join(
        f"x.py:1 - rollout {s}: {{'rollout/raw_reward': 0.{s}, 'perf/step_time': 9.5}}\n" for s in range(1, 6)
    )
    text += "".join(
        f"x.py:1 - eval {s}: {{'eval/aime-2024': 0.0{s}, 'eval/aime-2024-truncated_ratio': 0.5}}\n"
        for s in range(1, 6)
    )
    run = scalerl.load(put(tmp_path, text))
    assert (run.provenance.y, run.curve().pass_rate.tolist()) == (
        "eval/aime-2024",
        [0.01, 0.02, 0.03, 0.04, 0.05],
    )


def test_ms_swift_and_llama_factory_lines(tmp_path):
    swift = "".join(
        json.dumps({"global_step/max_steps": f"{s}/560", "reward": s / 100, "elapsed_time": f"{s}m 30s"})
        + "\n"
        for s in (10, 20, 30)
    )
    path = put(tmp_path, swift)
    assert xy(path) == ([10, 20, 30], [0.1, 0.2, 0.3])
    assert scalerl.load(path, devices="4").curve().compute.tolist() == pytest.approx(
        [4 * (60 * s + 30) / 3600 for s in (10, 20, 30)]
    )
    factory = "".join(
        json.dumps({"current_steps": s, "reward": 0.5, "elapsed_time": f"{s} days, 0:00:00"}) + "\n"
        for s in (1, 2, 3)
    )
    assert scalerl.load(put(tmp_path, factory), devices="1").curve().compute.tolist() == [24, 48, 72]


def test_nemo_console(tmp_path):
    block = "===== Step {0}/9 =====\n  • Avg Reward: 0.{0}\n{1}  • Total step time: 40.00s\n"
    check = "Validation Results:\n    • Accuracy: 0.0{0}\n    • Samples processed: 256\n"
    text = "".join(block.format(s, check.format(s)) for s in range(1, 6))
    run = scalerl.load(put(tmp_path, text), devices="9")
    curve = run.curve()
    assert curve.pass_rate.tolist() == [0.01, 0.02, 0.03, 0.04, 0.05]
    assert curve.compute.tolist() == pytest.approx([s * 40 * 9 / 3600 for s in range(1, 6)])
    assert curve.stderr[1] == pytest.approx(np.sqrt(0.02 * 0.98 / 256))


def test_wandb_chart_export_with_a_dash_in_a_run_name(tmp_path):
    head = '"Step","my - run - eval/accuracy","my - run - eval/accuracy__MIN","my - run - eval/accuracy__MAX"'
    other = ',"b - eval/accuracy","b - eval/accuracy__MIN","b - eval/accuracy__MAX"\n'
    rows = "".join(
        f'"{s}","0.{s}","0.{s}","0.{s}","","",""\n"{s + 1}","","","","0.5","0.5","0.5"\n'
        for s in (1, 3, 5, 7)
    )
    path = put(tmp_path, head + other + rows)
    runs = load_all(path)
    assert list(runs) == ["my - run", "b"]
    assert runs["my - run"].curve().pass_rate.tolist() == [0.1, 0.3, 0.5, 0.7]
    assert runs["b"].curve().compute.tolist() == [2, 4, 6, 8]
    assert xy(f"{path}#b")[1] == [0.5] * 4
    with pytest.raises(UserError, match="no run 'c'; it has my - run, b"):
        scalerl.load(f"{path}#c")


def test_tidy_table_of_metric_and_value(tmp_path):
    rows = [
        f"{run},{metric},{s},{v}"
        for run in "ab"
        for s in range(1, 6)
        for metric, v in (("eval/acc", s / 10), ("loss", 9))
    ]
    runs = load_all(put(tmp_path, "run_name,metric,step,value\n" + "\n".join(rows) + "\n"))
    assert list(runs) == ["a", "b"]
    assert runs["b"].curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]


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


def test_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "run_name": ["a"] * 4 + ["b"] * 4,
            "step": [1, 2, 3, 4] * 2,
            "eval/acc": [0.1, 0.2, None, 0.4] * 2,
            "junk": [[1]] * 8,
        }
    )
    pq.write_table(table, tmp_path / "t.bin")
    runs = load_all(tmp_path / "t.bin")
    assert list(runs) == ["a", "b"]
    assert runs["a"].curve().compute.tolist() == [1, 2, 4]


def test_json_shapes(tmp_path):
    columns = put(
        tmp_path, '{"config": {"lr": 1}, "step": [1, 2, 3, 4], "eval_acc": [0.1, 0.2, 0.3, 0.4]}', "columns"
    )
    assert xy(columns)[1] == [0.1, 0.2, 0.3, 0.4]
    only_y = put(tmp_path, '{"reward_trace": [0.1, 0.2, 0.3], "seed": 1}', "only_y")
    with pytest.raises(
        UserError, match="no field says at which step reward_trace was taken; name one with --x"
    ):
        scalerl.load(only_y)
    assert xy(only_y, x="index") == ([1, 2, 3], [0.1, 0.2, 0.3])
    checkpoints = put(
        tmp_path,
        json.dumps({f"checkpoint-{s}": {"gsm8k": {"ans_acc": [s / 100, s / 100 + 0.02]}} for s in (20, 5)}),
        "ck",
    )
    assert xy(checkpoints) == ([5, 20], pytest.approx([0.06, 0.21]))
    cut = put(tmp_path, trainer_state([{"step": s, "reward": 0.5} for s in range(9)])[:-60], "cut")
    with pytest.raises(UserError, match="ends early"):
        scalerl.load(cut)


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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b" \n\n\t", "the file is empty"),
        (b"\x00" * 500, "the file is empty"),
        (bytes(range(256)) * 20, "a binary file"),
        (b"\x80\x04\x95" + bytes(range(200)) * 9, "looks like a pickle, which is never opened"),
        (b"\x1f\x8b\x08" + bytes(range(200)) * 9, "gzip: unpack it first"),
        (b"PAR1 no parquet", "not a readable Parquet file"),
        (b"PK\x03\x04" + bytes(range(200)) * 9, "zip archive"),
        (b"just some words\nand more of them\n", "no line with a step and a pass rate"),
        (b"{}", "nothing to fit|no field|no rows"),
        (b"[]", "no rows of metrics"),
        (b"[" * 100000, "nested too deeply|no rows|isn't valid"),
        (
            b'{"step": 1, "reward": ' + b"9" * 5000 + b"}\n",
            "Exceeds the limit",
        ),
        (b"step,reward\n", "no field|nothing|no rows"),
        (b"path,sha256,rows\na,b,3\n", "an index of other files"),
    ],
)
def test_what_cannot_be_used_ends_in_one_clear_line(tmp_path, content, says):
    with pytest.raises(UserError, match=says) as caught:
        scalerl.load(put(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_folders(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        scalerl.load(tmp_path / "none")
    with pytest.raises(UserError, match="no run in this folder"):
        scalerl.load(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        put(tmp_path / name, TABLE, "metrics.csv")
    with pytest.raises(UserError, match=f"holds 2 runs: a, b; pick one as '{tmp_path}#a'"):
        scalerl.load(tmp_path)
    assert list(load_all(tmp_path)) == ["a", "b"]
    assert xy(f"{tmp_path}#b") == EXPECTED
    for step in (5, 10):
        (tmp_path / "hf" / f"checkpoint-{step}").mkdir(parents=True)
        state = trainer_state([{"step": s, "reward": 0.1} for s in range(1, step + 1)])
        put(tmp_path / "hf" / f"checkpoint-{step}", state, "trainer_state.json")
    assert len(scalerl.load(tmp_path / "hf").curve()) == 10


def test_a_file_of_a_folder_that_cannot_be_used_is_warned_about(tmp_path):
    put(tmp_path, TABLE, "a.csv")
    put(tmp_path, "words\n", "b.log")
    put(tmp_path, "step,reward\n1,5\n2,9\n", "c.csv")
    with pytest.warns(UserWarning, match="left out") as caught:
        assert list(load_all(tmp_path)) == ["a"]
    assert [str(w.message).split(": ")[2].rpartition("/")[2] for w in caught] == ["b.log", "c.csv"]


def test_a_table_without_names_says_so(tmp_path):
    with pytest.raises(UserError, match="without names of its columns"):
        scalerl.load(put(tmp_path, "1,0.5\n2,0.6\n3,0.7\n"))


def test_evaluations_of_a_foreign_run_read_like_those_of_a_record(tmp_path):
    run = scalerl.load(put(tmp_path, TABLE))
    assert [e.pass_rate for e in run.evaluations] == EXPECTED[1]
    assert (run.evaluations[-1].step, len(run.evaluations[1:3])) == (40, 2)
    assert run.to_frame()["step"].tolist() == [10, 20, 30, 40]
    with pytest.raises(IndexError):
        run.evaluations[4]


def test_nothing_in_a_log_is_executed(tmp_path):
    trap = tmp_path / "trap"
    evil = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    lines = "".join(f"{{'reward': {evil}, 'loss': 0.1, 'eval_reward': 0.{s}}}\n" for s in range(1, 6))
    run = scalerl.load(put(tmp_path, lines))
    assert run.curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert not trap.exists()
