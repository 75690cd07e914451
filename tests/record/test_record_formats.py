# ruff: noqa: E501 - lines of logs are long
"""Each trainer's format, in small files of our own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from record_logs import put, trainer_state, xy

import scalerl
from scalerl.errors import UserError
from scalerl.record.load import load_all


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
