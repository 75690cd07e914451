"""Tests of problems in the forms of DeepCoder, TACO and LiveCodeBench; comparing; finding the program."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import pytest

from scalerl.task import code_tests
from scalerl.task.code_output import same_output, same_result
from scalerl.task.code_program import extract_program


def test_stdin_lists_and_dicts():
    rows = [{"type": "stdin_stdout", "input": "1\n", "output": "2\n"}]
    assert code_tests.parse_tests(json.dumps(rows)).tests == (code_tests.CodeTest("1\n", "2\n"),)
    taco = {"inputs": [["1", "2"], "3"], "outputs": ["x", ["y", "z"]]}
    assert [(t.input, t.output) for t in code_tests.parse_tests(taco).tests] == [("1\n2", "x"), ("3", "y\nz")]


def test_function_forms():
    taco = code_tests.parse_tests({"inputs": [[1, [2]]], "outputs": [[3]], "fn_name": "f"})
    assert (taco.function, taco.tests[0]) == ("f", code_tests.CodeTest("[1, [2]]", "[3]", wrapped=True))
    rows = [{"testtype": "functional", "input": '[1, 2]\n"a"', "output": "true"}]
    lcb = code_tests.parse_tests(json.dumps(rows), json.dumps({"func_name": "g"}))
    assert (lcb.function, lcb.tests[0]) == ("g", code_tests.CodeTest('[[1, 2], "a"]', "true"))
    prime = [{"type": "function_call", "fn_name": "h", "input": [1], "output": [2]}]
    assert code_tests.parse_tests(prime).function == "h"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "no tests"),
        ("3", "neither"),
        ('[{"input": "1"}]', "output"),
        ({"inputs": [1], "outputs": []}, "one length"),
        ([{"testtype": "functional", "input": "1", "output": "1"}], "function's name"),
        (
            [{"input": "1", "output": "1"}, {"testtype": "functional", "input": "1", "output": "1"}],
            "one problem",
        ),
    ],
)
def test_unreadable_tests_say_why(raw, reason):
    with pytest.raises(code_tests.BadTests, match=reason):
        code_tests.parse_tests(raw)


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/scalerl-pickle-was-here",))


def test_private_tests_of_livecodebench():
    rows = json.dumps([{"input": "1", "output": "2", "testtype": "stdin"}])
    assert code_tests.decode_private_tests(rows) == rows
    assert code_tests.decode_private_tests(packed(rows)) == rows
    both = code_tests.livecodebench_tests(rows, packed(rows), "{}")
    assert len(both.tests) == 2


@pytest.mark.parametrize("value", [Evil(), [1, 2], 3, {"a": "b"}, print, pickle.PickleBuffer])
def test_private_tests_admit_nothing_but_a_string(value):
    with pytest.raises(code_tests.BadTests):
        code_tests.decode_private_tests(packed(value))
    assert not Path("/tmp/scalerl-pickle-was-here").exists()


def test_private_tests_that_inflate_without_end(monkeypatch):
    monkeypatch.setattr(code_tests, "_MOST_DECODED_BYTES", 1000)
    with pytest.raises(code_tests.BadTests, match="inflate"):
        code_tests.decode_private_tests(packed("x" * 5000))
    with pytest.raises(code_tests.BadTests):
        code_tests.decode_private_tests("!!! not base64")


# --- comparing


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ("42", "42\n", True),
        ("42 \n\n", "42", True),
        ("1 2\n3", "1 2\n3\n", True),
        ("1\n2", "1 2", False),
        ("0.3333333333", "0.333333333333", True),
        ("0.3334", "0.3333", False),
        ("1.0", "1", True),
        ("1e0", "1", True),
        ("2", "1.9999999", True),
        ("3", "2.9", False),
        ("1000000000000000001", "1000000000000000000", False),
        ("YES", "Yes", False),
        ("nan", "nan", True),
        ("nan", "1.0", False),
        ("", "", True),
        ("", "0", False),
        ("42\n42", "42", False),
        ("4_2", "42", False),
        ("٤٢", "42", False),
        ("inf", "1.0", False),
        ("1e999999", "1.5", False),
        ("1e999999999999999999", "1.5", False),
        ("1" + "0" * 500, "1.5", False),
        ("41\r42", "42", False),
        ("42\x00", "42", False),
        ("0x2a", "42", False),
    ],
)
def test_outputs(got, wanted, same):
    assert same_output(got, wanted) is same


@pytest.mark.parametrize(
    ("got", "wanted", "wrapped", "same"),
    [
        ("[1, 2]", "[1,2]", False, True),
        ("3", "[3]", True, True),
        ("3", "[3]", False, False),
        ("[3]", "[3]", True, True),
        ("1", "true", False, False),
        ("true", "true", False, True),
        ("0.1", "0.10000000001", False, True),
        ("null", "null", False, True),
        ('{"a": [1.0]}', '{"a": [1]}', False, True),
        ("[" * 5000 + "]" * 5000, "[]", False, False),
        ("", "1", False, False),
        ("9" * 5000, "9", False, False),
        ("1" + "0" * 400, "1.0", False, False),
        ("1e999", "1.0", False, False),
        ("NaN", "1.0", False, False),
        ('"1"', "1", False, False),
        ("[[1]]", "[1]", True, False),
    ],
)
def test_results(got, wanted, wrapped, same):
    assert same_result(got, wanted, wrapped=wrapped) is same


def test_program_is_the_last_python_block_after_the_thinking():
    text = (
        "<think>```python\n"
        "bad\n"
        "```</think>```cpp\n"
        "int x;\n"
        "```\n"
        "```python\n"
        "a\n"
        "```\n"
        "or\n"
        "```\n"
        "b\n"
        "c\n"
        "```\n"
        "```text\n"
        "d\n"
        "```"
    )
    assert extract_program(text) == "b\nc"
    assert extract_program("```python\nunclosed") is None
    assert extract_program("no code") is None
    assert extract_program("<think>```python\nx\n```") is None
    assert extract_program("```\n" * 100_001) == ""
