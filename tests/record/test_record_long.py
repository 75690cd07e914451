# ruff: noqa: E501 - literal lines
"""Logs too long for memory: what stays of them is a part of the whole, and what is said of it is true."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalerl
from scalerl.record import columns as columns_module
from scalerl.record import text as text_module
from scalerl.record.column import look_up
from scalerl.record.columns import Budget, Columns, Wanted
from scalerl.record.load import load_all
from scalerl.record.readers import cells, shapes
from scalerl.record.readers.console import Console


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def points(run):
    curve = run.curve()
    return dict(zip(curve.compute.tolist(), curve.pass_rate.tolist(), strict=True))


def both(path, monkeypatch, most, **options):
    """The run as it is, and the run read with room for `most` values."""
    whole = scalerl.load(path, **options)
    with monkeypatch.context() as patch:
        patch.setattr(columns_module, "MOST_VALUES", most)
        return whole, scalerl.load(path, **options)


def test_a_thinned_log_keeps_points_of_the_whole_one_and_says_how_many(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text(lines_of({"step": s, "reward": (s * 37 % 101) / 101} for s in range(1, 20_001)))
    whole, some = both(path, monkeypatch, 4000)
    every, kept = points(whole), points(some)
    assert len(every) == 20_000
    assert 500 < len(kept) < 2500
    assert kept.items() <= every.items()
    assert {1.0, 20_000.0} <= kept.keys()
    (reason, count), *_ = some.provenance.dropped.items()
    assert reason.startswith("thinned: the last of every ")
    assert count == 20_000 - len(kept)
    assert some.provenance.points == len(kept)
    assert "20,000 values of reward are more than are held" in some.provenance.warnings[0]
    gaps = np.diff(np.array(sorted(kept)))
    assert gaps[2:-2].max() <= 2 * gaps[2:-2].min()  # as dense at the end as at the beginning


def test_sums_over_thinned_steps_stay_whole(tmp_path, monkeypatch):
    rows = [
        {"step": s, "reward": 0.5, "tokens_per_step": 1 + s % 7, "step_time": 1.5} for s in range(1, 9001)
    ]
    path = tmp_path / "log"
    path.write_text(lines_of(rows))
    whole, some = both(path, monkeypatch, 3000, devices="8")
    for axis in ("tokens_trained", "device_hours"):
        exact = dict(zip(whole.curve(axis="steps").compute, whole.curve(axis=axis).compute, strict=True))
        rough = dict(zip(some.curve(axis="steps").compute, some.curve(axis=axis).compute, strict=True))
        assert len(rough) < 1000
        assert [rough[s] for s in rough] == pytest.approx([exact[s] for s in rough])


def test_rare_evaluations_outlast_frequent_training_rows(tmp_path, monkeypatch):
    rows = []
    for s in range(1, 8001):
        rows.append({"step": s, "reward": 0.25})
        if s % 400 == 5:
            rows.append({"step": s, "eval_reward": s / 10_000})
    path = tmp_path / "log"
    path.write_text(lines_of(rows))
    whole, some = both(path, monkeypatch, 2000)
    assert points(some) == points(whole)
    assert some.provenance.dropped == {}


def test_a_value_beyond_the_scale_is_seen_though_it_is_thinned_out(tmp_path, monkeypatch):
    rows = [{"step": s, "reward": 3.0 if s == 777 else 0.5} for s in range(1, 9001)]
    path = tmp_path / "log"
    path.write_text(lines_of(rows))
    monkeypatch.setattr(columns_module, "MOST_VALUES", 1000)
    with pytest.raises(scalerl.errors.UserError, match=r"reward has values 0\.5\.\.3"):
        scalerl.load(path)
    assert len(scalerl.load(path, scale="0:4").curve()) < 1000


def test_counted_rows_keep_their_numbers(tmp_path, monkeypatch):
    table = tmp_path / "table"
    table.write_text("reward,x\n" + "".join(f"0.{s % 10},1\n" for s in range(1, 5001)))
    whole, some = both(table, monkeypatch, 1000, x="index")
    assert len(points(some)) < 1000
    assert points(some).items() <= points(whole).items()
    console = tmp_path / "console"
    console.write_text("".join(f"{{'loss': 0.1, 'reward': 0.{s % 10}}}\n" for s in range(1, 5001)))
    whole, some = both(console, monkeypatch, 1000)
    assert len(points(some)) < 1000
    assert points(some).items() <= points(whole).items()


def test_runs_of_one_file_share_the_room_and_short_ones_stay_whole(tmp_path, monkeypatch):
    text = "run,step,eval/acc\n" + "".join(f"long,{s},0.5\n" for s in range(1, 9001))
    text += "".join(f"short,{s},0.25\n" for s in range(1, 101))
    path = tmp_path / "log"
    path.write_text(text)
    monkeypatch.setattr(columns_module, "MOST_VALUES", 2000)
    runs = load_all(path)
    assert runs["short"].provenance.points == 100
    assert runs["long"].provenance.points < 1000
    assert "thinned" in next(iter(runs["long"].provenance.dropped))


STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=8)


@given(STEPS, st.integers(20, 200), st.integers(0, 9))
@settings(max_examples=80, deadline=None)
def test_what_stays_after_restarts_is_a_part_of_the_whole(tmp_path_factory, segments, most, seed):
    rng = np.random.default_rng(seed)
    steps = [s for begin, count in segments for s in range(begin, begin + count) for _ in range(1 + s % 2)]
    rows = [
        {"step": s, "eval/acc": round(float(r), 6)}
        for s, r in zip(steps, rng.random(len(steps)), strict=True)
    ]
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text(lines_of(rows))
    with pytest.MonkeyPatch.context() as patch:
        whole, some = both(path, patch, most, restart="last")
    every, kept = points(whole), points(some)
    assert kept.items() <= every.items()
    assert max(every) in kept


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.lists(st.integers(0, 60), max_size=10))
def test_look_up_gives_the_last_value_of_a_row(rows, asked):
    at = np.sort(np.array(rows))
    values = np.arange(len(at), dtype=float)
    found = look_up(np.array(asked, np.int64), at, values)
    expected = [
        max((v for a, v in zip(at, values, strict=True) if a == row), default=np.nan) for row in asked
    ]
    np.testing.assert_array_equal(found, expected)


def test_more_fields_than_are_held_are_said_to_be_left_out(monkeypatch):
    monkeypatch.setattr(columns_module, "_MOST_FIELDS", 3)
    columns = Columns(Wanted(), Budget())
    columns.add((f"eval/acc{at}", 0.5) for at in range(6))
    assert columns.stored() == ["eval/acc0", "eval/acc1", "eval/acc2"]
    assert columns.crowded_out >= {"eval/acc3"}


ODD = st.sampled_from(
    ["noise", "", "step 5", "step 4 reward=nan", "step 4 reward=0.5 x=1", "reward=0.2 step 3", "step 7 reward=0.25",
     "step:3 - critic/score/mean:0.5", "(pid=1) step:4 - critic/score/mean:0.25 - perf/total_num_tokens:10",
     " 375 - perf/total_num_tokens:200", "{'loss': 0.1, 'reward': 0.5}", "{'loss': 0.1, 'reward': '0.5'}",
     "{'eval_reward': 0.5}", "{'reward': 0.5", "==== Step 3/9 ====", " • Avg Reward: 0.5", "step 1e3 reward=0.5",
     '{"step": 3, "reward": 0.5}', '{"step": 3, "reward": "0.5"}', '{"step": 3, "reward": 1.}', '{"step": 3}',
     '{"step": 3, "rewards": {"f": 0.5}}', "step 6 reward=1,000", "a\x1fb", "step 5 reward=0.5%", "step 5 reward=.5"]
)  # fmt: skip
PATTERNS = st.sampled_from(
    ["step {0} reward=0.{1}", "step:{0} - critic/score/mean:0.{1}", "{{'loss': 0.1, 'reward': 0.{1}}}",
     '{{"step": {0}, "reward": 0.{1}}}', "[Step {0}/99] loss={0} reward=0.{1}e-1", '{{"step": "{0}", "a": {{"acc": 0.{1}}}}}',
     "eval {0}: {{'eval/aime': 0.{1}}}", "step:{0} - val/{1}/acc:0.5 - critic/score/mean:0.{1}"]
)  # fmt: skip


@given(PATTERNS, st.lists(st.tuples(st.integers(0, 30), ODD), max_size=8), st.integers(5, 60))
@settings(max_examples=150, deadline=None)
def test_lines_of_one_shape_read_together_are_what_they_are_alone(tmp_path_factory, pattern, odd, count):
    lines = [pattern.format(at, at * 7 % 10) for at in range(1, count)]
    for at, text in odd:
        lines.insert(at, text)
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text("\n".join(lines) + "\n")
    said = []
    for fewest in (10**9, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shapes, "FEWEST_LINES", fewest)
            said.append(outcome(path))
    assert said[0] == said[1]


def test_lines_of_one_shape_are_read_together(monkeypatch):
    class Reader:
        def __init__(self):
            self.fed, self.taken = [], 0

        def feed(self, line):
            self.fed.append(line)

        def feed_block(self, block):
            self.fed += block.split("\n")

        def probe(self, line):
            first, second = line.removeprefix("a=").split(" b=")
            return [("a", float(first)), ("b", float(second))]

        def take(self, example, names, values):
            assert values[1].tolist() == [v + 0.5 for v in values[0].tolist()]
            self.taken += len(values[0])

    reader = Reader()
    block = "\n".join(f"a={s} b={s}.5" for s in range(1000))
    shapes.read_by_shape([block, block.replace("a=500 ", "c=500 ")], reader)
    assert (reader.taken, reader.fed) == (
        1996,
        ["a=999 b=999.5", "a=499 b=499.5", "c=500 b=500.5", "a=999 b=999.5"],
    )


NEMO = st.sampled_from(
    ["==== Step {0}/9 ====", "========= Step {0} =====", "==== Step {0}/9 ==== • Avg Reward: 0.3", " • Avg Reward: 0.{1}",
     "  * Avg Reward: 1,000", "- Accuracy: 0.{1}", "\u2003•\xa0Accuracy : 0.{1}", " • Avg Reward: 0.{1}e-1", " • Avg Reward: ...",
     " • Avg Reward: ٠.٣", " • Total step time: 4{1}.70s", " • Samples processed: {0}{1}", "x • Accuracy: 0.3", " • Loss: 0.1",
     "step {0} reward=0.9", "{{'loss': 0.1, 'reward': 0.5}}", "step:{0} - critic/score/mean:0.5", "==== Step ٣ ====",
     " * Accuracy: 0.{1} {{'reward': 0.3}}", "======= Step {0}/99 ====== ", "=== Step {0} ====", "x==== Step {0} ====",
     "• Avg Reward: 0.{1} (was 0.5)", " • Avg Reward: 0.{1}٣", " • Avg Reward:\xa00.{1}\xa0", "\t- Accuracy\t:\t0.{1}-", "", "[Step 3/9] acc=0.5", "==== Step {0}/9 ==="]
)  # fmt: skip
COMMON = st.sampled_from(["==== Step {0}/9 ====", " • Avg Reward: 0.{1}", " • Accuracy: 0.{1}", "noise"])


@given(
    st.lists(st.tuples(COMMON, st.integers(0, 9)), min_size=10, max_size=80),
    st.lists(st.tuples(st.integers(0, 80), NEMO), max_size=3),
    st.integers(60, 1000),
)
@settings(max_examples=300, deadline=None)
def test_nemo_blocks_read_together_are_what_they_are_line_by_line(tmp_path_factory, parts, odd, size):
    lines = ["==== Step 1/9 ====", " • Avg Reward: 0.5", "==== Step 2/9 ===="]
    lines += [text.format(at, digit) for at, (text, digit) in enumerate(parts, 3)]
    for at, text in odd:
        lines.insert(at, text.format(at, at % 10))
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text("\n".join(lines) + "\n")
    said = []
    for together in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_module, "CHUNK_BYTES", size)
            if not together:
                patch.setattr(Console, "feed_block", lambda self, b: [self.feed(x) for x in b.split("\n")])
            said.append(outcome(path))
    assert said[0] == said[1]


def outcome(path):
    """What a file loads as: what is said of it and its points, or the error."""
    try:
        run = scalerl.load(path, restart="append")
    except scalerl.errors.UserError as error:
        return str(error)
    curve = run.curve()
    return run.provenance, curve.compute.tolist(), curve.pass_rate.tolist()


CELLS = st.sampled_from(
    ["0.5", "1", "", " 0.25", "0.5 ", "nan", "NaN", "inf", "x", "50%", "1,000", "1_0", "1e-3", ".5", "1.", "+0.5", "-0.1",
     "10/560", "1m 3s", "true", "9" * 30, "1e400", "0x1p-1", "null", "NA", "infinity", "٣"]
)  # fmt: skip


@given(
    st.lists(
        st.sampled_from(["step", "reward", "eval/acc", "run", "seed", "step_time", "note"]),
        min_size=2,
        max_size=5,
    ),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), CELLS), max_size=12),
    st.sampled_from([",", ";", "\t"]),
    st.integers(100, 3000),
)
@settings(max_examples=300, deadline=None)
def test_tables_read_by_arrow_are_what_the_csv_module_reads(tmp_path_factory, names, odd, delimiter, size):
    rows = [
        [f"{at}" if name in ("step", "seed") else f"0.{at % 7}" for name in names] for at in range(1, 201)
    ]
    for at, column, cell in odd:
        rows[at % 200][column % len(names)] = cell
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text(
        "".join(
            delimiter.join(f'"{c}"' if delimiter in c else c for c in row) + "\n" for row in [names, *rows]
        )
    )
    said = []
    for plain in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_module, "CHUNK_BYTES", size)
            if not plain:
                patch.setattr(cells, "_parsed", lambda *_: None)
            said.append(outcome(path))
    assert said[0] == said[1]
