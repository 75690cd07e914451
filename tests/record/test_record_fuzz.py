# ruff: noqa: E501 - lists of odd values
"""Fuzzed readers: any bytes give a run or a UserError of one line, never another exception, never a hang.

The normal suite tries a few hundred inputs; `-m slow` tries 10,000 of each format.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalerl.errors import UserError
from scalerl.record.load import load_all

LONGEST_SECONDS = 5.0
NAMES = st.sampled_from(
    ["step", "reward", "eval/accuracy", "critic/score/mean", "critic/score/min", "num_tokens", "step_time", "run_name",
     "seed", "eval_reward", "rewards/f/mean", "val-core/a/acc/mean@16", "perf/total_num_tokens", "timestamp", "x"]
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 60).map(str),
    st.floats(0, 1).map(repr),
    st.sampled_from(
        [
            "nan",
            "NaN",
            "inf",
            "-inf",
            "",
            "1,5",
            "1e400",
            "-0",
            "12%",
            "np.float64(0.5)",
            "x",
            "9" * 400,
            "1_0",
        ]
    ),
)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.floats(0, 1)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(NAMES, st.text(max_size=6)), inner, max_size=5)
    ),
    max_leaves=12,
)
ROWS = st.lists(
    st.dictionaries(NAMES, st.one_of(st.integers(-5, 50), st.floats(0, 1), JSON_VALUES), max_size=6),
    max_size=12,
)
PAIRS = st.lists(st.lists(st.tuples(NAMES, NUMBERS), max_size=6), max_size=10)


def verl(lines):
    return "\n".join(
        f"(pid=1) step:{i} - " + " - ".join(f"{n}:{v}" for n, v in pairs) for i, pairs in enumerate(lines)
    )


def trl(lines):
    return "\r".join("{" + ", ".join(f"'{n}': {v or 0}" for n, v in pairs) + "}" for pairs in lines)


def nemo(lines):
    return "\n".join(
        f"==== Step {i}/9 ====\n • Avg Reward: {v}\n • Accuracy: {v}"
        for i, p in enumerate(lines)
        for _, v in p
    )


def pairs_of(lines):
    return "\n".join(
        f"[Step {i}/9] " + " ".join(f"{n}={v}" for n, v in pairs) for i, pairs in enumerate(lines)
    )


@st.composite
def tables(draw):
    header = draw(st.lists(NAMES, min_size=2, max_size=6))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    rows = draw(st.lists(st.lists(NUMBERS, min_size=len(header) - 1, max_size=len(header)), max_size=12))
    return "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in [header, *rows])


@st.composite
def charts(draw):
    runs = draw(st.lists(st.sampled_from(["a", "b - c", "d"]), min_size=1, max_size=3, unique=True))
    header = ["Step"] + [f"{r} - eval/acc{e}" for r in runs for e in ("", "__MIN", "__MAX")]
    rows = draw(st.lists(st.lists(NUMBERS, min_size=len(header), max_size=len(header)), max_size=8))
    return "\n".join(",".join(f'"{cell}"' for cell in row) for row in [header, *rows])


FORMATS = {
    "bytes": st.binary(max_size=300),
    "text": st.text(max_size=200),
    "json_lines": ROWS.map(lambda rows: "\n".join(json.dumps(row) for row in rows)),
    "json": st.one_of(JSON_VALUES, ROWS, ROWS.map(lambda r: {"log_history": r})).map(json.dumps),
    "verl": PAIRS.map(verl),
    "trl": PAIRS.map(trl),
    "nemo": PAIRS.map(nemo),
    "pairs": PAIRS.map(pairs_of),
    "table": tables(),
    "wandb_chart": charts(),
}
ODD_BYTES = b"\x00\n\r\t,;|:{}[]'\"\\-.0159eNstep\xff\xc3\x1b"


def mutated(raw: bytes, seed: int) -> bytes:
    """The content itself for seed 0, else with pieces of it cut, doubled or overwritten."""
    if not seed:
        return raw
    rng = random.Random(seed)
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        kind = rng.randrange(4)
        piece = bytes(rng.choice(ODD_BYTES) for _ in range(rng.randint(1, 4)))
        if kind == 0:
            del data[at : at + rng.randint(1, 40)]
        elif kind == 1:
            data[at:at] = data[at : at + rng.randint(1, 40)]
        elif kind == 2:
            data[at : at + len(piece)] = piece
        else:
            data[at:at] = piece
    return bytes(data[: rng.randint(0, len(data))] if rng.random() < 0.2 else data)


def check(raw: bytes, path: Path) -> None:
    """Load the content from a file: a run, or a UserError of one line, soon."""
    path.write_bytes(raw)
    begun, said = time.process_time(), ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run in load_all(path).values():
                curve = run.curve()
                assert len(curve) >= 1
                assert all(0 <= rate <= 1 for rate in curve.pass_rate)
    except UserError as error:
        said = str(error)
    assert "\n" not in said
    assert time.process_time() - begun < LONGEST_SECONDS


def fuzz(strategy: st.SearchStrategy[str | bytes], path: Path, examples: int, mutations: int) -> None:
    """Try `examples` contents, each as it is and in `mutations - 1` damaged forms."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(strategy, st.integers(1, 10**6))
    def attempt(content, seed):
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        for number in range(mutations):
            check(mutated(raw, number and seed + number), path)

    attempt()


@pytest.mark.parametrize("name", FORMATS)
def test_fuzzed(name, tmp_path):
    fuzz(FORMATS[name], tmp_path / "log", 40, 6)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", FORMATS)
def test_fuzzed_ten_thousand_times(name, tmp_path):
    fuzz(FORMATS[name], tmp_path / "log", 500, 20)


def parquet_bytes() -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table({"step": [1, 2, 3, 4], "eval/acc": [0.1, 0.2, 0.3, 0.4]}), buffer)
    return buffer.getvalue()


def event_file_bytes() -> bytes:
    import struct

    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    def framed(data: bytes) -> bytes:
        length = struct.pack("<Q", len(data))
        return (
            length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))
        )

    events = [event_pb2.Event(wall_time=1.0, file_version="brain.Event:2")]
    for step in range(1, 6):
        value = summary_pb2.Summary.Value(tag="eval/accuracy", simple_value=step / 10)
        events.append(event_pb2.Event(wall_time=step, step=step, summary=summary_pb2.Summary(value=[value])))
    return b"".join(framed(event.SerializeToString()) for event in events)


def wandb_bytes() -> bytes:
    import struct

    from wandb.proto import wandb_internal_pb2 as pb

    content = b":W&B" + bytes(3)
    for step in range(1, 6):
        items = [("train/global_step", str(step)), ("eval/accuracy", str(step / 10)), ("note", '"x"')]
        history = pb.HistoryRecord(item=[pb.HistoryItem(key=k, value_json=v) for k, v in items])
        data = pb.Record(num=step, history=history).SerializeToString()
        content += struct.pack("<IHB", 0, len(data), 1) + data
    return content


BINARIES = {"parquet": parquet_bytes, "events": event_file_bytes, "wandb": wandb_bytes}


@pytest.mark.parametrize("name", BINARIES)
def test_fuzzed_binary(name, tmp_path):
    fuzz(st.just(BINARIES[name]()), tmp_path / "log", 1, 150)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", BINARIES)
def test_fuzzed_binary_ten_thousand_times(name, tmp_path):
    fuzz(st.just(BINARIES[name]()), tmp_path / "log", 10, 1000)


@pytest.mark.parametrize("name", BINARIES)
def test_a_whole_binary_gives_its_points(name, tmp_path):
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(BINARIES[name]())
    curve = next(iter(load_all(path).values())).curve()
    assert curve.compute.tolist() == [1, 2, 3, 4, 5][: len(curve)]
    assert curve.pass_rate.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5][: len(curve)])
