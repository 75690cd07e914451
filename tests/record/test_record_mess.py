"""The mess of real life in small files of our own: encodings, marks, tears, restarts."""

from __future__ import annotations

import pytest
from record_logs import EXPECTED, TABLE, put, xy

import scalerl
from scalerl.record.choice import ChoiceNeeded


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
    assert run.provenance.dropped == {"value is NaN, infinite or text": 3}


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
