"""`scalerl convert SRC DST`: the fit of the record is the fit of the log, number for number."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from command_line import scalerl

STEPS = range(1, 61)


def rates(seed: int) -> list[float]:
    """A noisy curve with ceiling 0.7, one value for each of STEPS."""
    noise = np.random.default_rng(seed).normal(0, 0.01, len(STEPS))
    return [round(0.1 + 0.6 / (1 + (12 / step) ** 1.5) + e, 6) for step, e in zip(STEPS, noise, strict=True)]


TRAIN = dict(zip(STEPS, rates(1), strict=True))
HELD_OUT = {step: rate for step, rate in zip(STEPS, rates(2), strict=True) if step % 2 == 0}


def wandb_chart(folder: Path) -> str:
    name = "run - x - eval/accuracy"
    rows = [f'"Step","{name}","{name}__MIN","{name}__MAX"']
    rows += [f'"{step}","{rate}","{rate}","{rate}"' for step, rate in HELD_OUT.items()]
    (folder / "chart.csv").write_text("\n".join(rows))
    return "chart.csv"


def wandb_folder(folder: Path) -> str:
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    content = b":W&B" + bytes(3)
    for step, rate in TRAIN.items():
        row = {"train/global_step": step, "train/reward": rate, "train/num_tokens": step * 1001}
        row |= {"eval/accuracy": HELD_OUT[step]} if step in HELD_OUT else {}
        items = [pb.HistoryItem(key=key, value_json=json.dumps(value)) for key, value in row.items()]
        data = pb.Record(num=step, history=pb.HistoryRecord(item=items)).SerializeToString()
        content += struct.pack("<IHB", 0, len(data), 1) + data
    place = folder / "wandb" / "offline-run-20260101_000000-abc"
    place.mkdir(parents=True)
    (place / "run-abc.wandb").write_bytes(content)
    return "wandb/offline-run-20260101_000000-abc"


def tensorboard_folder(folder: Path) -> str:
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    events = [event_pb2.Event(wall_time=100.0, file_version="brain.Event:2")]
    for step, rate in HELD_OUT.items():
        scalars = {"eval/accuracy": rate, "train/num_tokens": 1000.0 * step}
        value = [summary_pb2.Summary.Value(tag=tag, simple_value=number) for tag, number in scalars.items()]
        events.append(
            event_pb2.Event(wall_time=100.0 + 7 * step, step=step, summary=summary_pb2.Summary(value=value))
        )
    place = folder / "events"
    place.mkdir()
    with open(place / "events.out.tfevents.100.host", "wb") as file:
        for data in (event.SerializeToString() for event in events):
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", masked_crc32c(length)))
            file.write(data + struct.pack("<I", masked_crc32c(data)))
    return "events"


def parquet(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "step": list(STEPS),
        "reward": list(TRAIN.values()),
        "eval/accuracy": [HELD_OUT.get(step) for step in STEPS],
        "num_tokens": [777 * step for step in STEPS],
    }
    pq.write_table(pa.table(columns), folder / "table.parquet")
    return "table.parquet"


def verl_console(folder: Path) -> str:
    lines = ["(TaskRunner pid=1) step:0 - val-core/math/acc/mean@16:0.1"]
    for step, rate in TRAIN.items():
        held_out = f"val-core/math/acc/mean@16:{HELD_OUT[step]} - " if step in HELD_OUT else ""
        lines.append(
            f"\x1b[36m(TaskRunner pid=1)\x1b[0m step:{step} - {held_out}critic/score/mean:{rate} - "
            f"perf/total_num_tokens:{1000 + step} - timing_s/step:{30 + step % 3}.5"
        )
    (folder / "verl.log").write_text("\n".join(lines) + "\n")
    return "verl.log"


def trainer_state(folder: Path) -> str:
    """Tokens are known at every seventh step: evaluations lie between them, at no whole number of tokens."""
    history = []
    for step, rate in TRAIN.items():
        tokens = {"num_tokens": 990.0 * step + step // 7} if step % 7 == 0 else {}
        history.append({"step": step, "reward": rate, **tokens})
        history += [{"step": step, "eval_reward": HELD_OUT[step]}] if step in HELD_OUT else []
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    return "trainer_state.json"


def nemo_console(folder: Path) -> str:
    blocks = []
    for step, rate in TRAIN.items():
        held_out = f"  • Accuracy: {HELD_OUT[step]}\n  • Samples processed: 256\n" if step in HELD_OUT else ""
        blocks.append(f"{'=' * 25} Step {step}/60 {'=' * 25}\n{held_out}  • Avg Reward: {rate}\n")
        blocks.append("  • Total step time: 40.70s\n")
    (folder / "nemo.log").write_text("".join(blocks))
    return "nemo.log"


def train_from_step_0(folder: Path) -> str:
    """A train reward at step 0 is of the first batch, not of the model before training."""
    lines = [
        json.dumps({"step": step - 1, "reward": rate, "num_tokens": 1000 * step})
        for step, rate in TRAIN.items()
    ]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    return "metrics.jsonl"


def by_checkpoint(folder: Path) -> str:
    """Each checkpoint evaluated three times."""
    results = {
        f"checkpoint-{step}": {"gsm8k": {"accuracy": [rate, rate - 0.01, rate + 0.01]}}
        for step, rate in HELD_OUT.items()
    }
    (folder / "results.json").write_text(json.dumps(results))
    return "results.json"


@pytest.mark.parametrize(
    ("write", "options", "axis"),
    [
        (wandb_chart, [], "steps"),
        (wandb_folder, [], "tokens_trained"),
        (tensorboard_folder, [], "tokens_trained"),
        (tensorboard_folder, ["--devices", "8:H100"], "device_hours"),
        (parquet, ["--params", "7e9"], "flops"),
        (verl_console, ["--devices", "4+4"], "device_hours"),
        (verl_console, ["--y", "critic/score/mean"], "tokens_trained"),
        (trainer_state, [], "tokens_trained"),
        (trainer_state, ["--x", "step", "--y", "reward"], "steps"),
        (nemo_console, ["--devices", "8"], "device_hours"),
        (train_from_step_0, [], "tokens_trained"),
        (by_checkpoint, [], "steps"),
    ],
)
def test_the_fit_of_the_record_is_the_fit_of_the_log(monkeypatch, capsys, tmp_path, write, options, axis):
    monkeypatch.chdir(tmp_path)
    source = write(tmp_path)
    status, out, _ = scalerl(monkeypatch, capsys, "convert", source, "record", *options)
    assert status == 0
    assert "record: " in out
    fits = []
    for arguments in ([source, *options], ["record"]):
        status, out, error = scalerl(monkeypatch, capsys, "fit", *arguments, "--json")
        assert (status, error) == (0, "")
        fits.append(json.loads(out))
    assert fits[0] == fits[1]
    assert fits[0]["axis"] == axis
    assert fits[0]["A"] == pytest.approx(0.7, abs=0.06)
