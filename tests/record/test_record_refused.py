"""Files and folders that can't be used, or only in part: one clear line each."""

from __future__ import annotations

import pytest
from record_logs import EXPECTED, TABLE, put, trainer_state, xy

import scalerl
from scalerl.errors import UserError
from scalerl.record.load import load_all


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
        (b"step,acc\n1,nan\n2,inf\n", "acc holds no finite number"),
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


def test_nothing_in_a_log_is_executed(tmp_path):
    trap = tmp_path / "trap"
    evil = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    lines = "".join(f"{{'reward': {evil}, 'loss': 0.1, 'eval_reward': 0.{s}}}\n" for s in range(1, 6))
    run = scalerl.load(put(tmp_path, lines))
    assert run.curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert not trap.exists()


def test_a_negative_step_names_the_file_the_field_the_value_and_the_remedy(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,eval/acc\n-5,0.1\n0,0.2\n5,0.3\n10,0.4\n")
    with pytest.raises(
        UserError, match=r"log\.csv: field 'step' is -5 where eval/acc has a value.*--x index"
    ):
        scalerl.load(path)
    assert scalerl.load(path, x="index").curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_a_negative_step_of_another_set_leaves_the_curve_alone(tmp_path):
    path = tmp_path / "log.csv"
    rows = "".join(f"{s},0.{s},{'' if s < 5 else 0.5}\n" for s in range(1, 9))
    path.write_text(f"step,eval/acc,eval/other_acc\n-5,,0.1\n{rows}")
    run = scalerl.load(path)
    assert run.curve().compute.tolist() == list(range(1, 9))
    assert run.curve(set="eval/other_acc").compute.tolist() == [5, 6, 7, 8]
    assert any("eval/other_acc: values at a step below 0 left out" in said for said in run.warnings)


def test_a_long_column_name_beside_known_ones_is_a_name(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(f"step,{'long ' * 100},eval/acc\n1,x,0.1\n2,y,0.2\n3,z,0.3\n4,z,0.4\n")
    assert scalerl.load(path).curve().pass_rate.tolist() == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("step", ["-5", ""])
def test_another_set_without_a_usable_step_is_left_out(tmp_path, step):
    path = tmp_path / "log.csv"
    path.write_text("step,eval/acc,eval/other_acc\n" + f"{step},,0.1\n" + "1,0.1,\n2,0.2,\n3,0.3,\n4,0.4,\n")
    run = scalerl.load(path)
    assert run.curve().compute.tolist() == [1, 2, 3, 4]
    assert "eval/other_acc: no number at a known step, left out" in run.warnings
