"""Hostile programs: judged wrong within their limits, nothing escapes, nothing is left over."""

import os
import time
from pathlib import Path

import hostile_programs
import hostile_programs_more
import pytest
from code_problems import SMALL, SUM, fenced, needs_bubblewrap, ours, problem

from scalerl.task import code_tests
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.sandbox import BubblewrapSandbox

PROGRAMS = hostile_programs.PROGRAMS | hostile_programs_more.PROGRAMS
FUNCTIONS = hostile_programs.FUNCTIONS | hostile_programs_more.FUNCTIONS


@pytest.fixture(scope="module")
def sandboxed():
    return CodeVerifier(BubblewrapSandbox(), limits=SMALL, workers=2)


@needs_bubblewrap
@pytest.mark.parametrize("name", [*PROGRAMS, *FUNCTIONS])
def test_hostile_programs_are_judged_wrong_and_leave_nothing(sandboxed, name):
    if name in PROGRAMS:
        tests, code = code_tests.CodeTests(None, (code_tests.CodeTest("1\n", "SECRET-0"),)), PROGRAMS[name]
    else:
        tests = code_tests.CodeTests("add", (code_tests.CodeTest("[1, 2]", '"SECRET"'),))
        code = FUNCTIONS[name]
    before = ours()
    start = time.monotonic()
    judged = sandboxed([problem(tests)], [fenced(code)])[0]
    taken = time.monotonic() - start
    assert judged is not None, "a hostile program is wrong, not a failed verification"
    assert not judged.passed
    assert taken < 10 * SMALL.wall_seconds, taken  # generous: other work on the machine delays the killing
    assert ours() <= before
    for place in ("/", "/usr", "/tmp", "/home", "/dev", os.path.expanduser("~"), "."):
        assert not Path(place, "marker-scalerl").exists()


def test_there_are_forty_hostile_answers():
    assert len(PROGRAMS) + len(FUNCTIONS) >= 40


@needs_bubblewrap
def test_the_run_goes_on_among_hostile_programs(sandboxed):
    right = fenced("a, b = map(int, input().split())\nprint(a + b)")
    texts = [fenced(PROGRAMS["fork bomb"]), right, fenced(PROGRAMS["10 GB by and by"]), right, right]
    assert [j.passed for j in sandboxed([problem(SUM)] * 5, texts)] == [False, True, False, True, True]


@needs_bubblewrap
def test_program_sees_no_secrets_of_ours(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "do-not-leak")
    code = (
        "import os\n"
        "print(os.getuid(), sorted(os.environ), os.listdir('/'))\n"
        "try: print(open('/proc/1/environ').read())\n"
        "except OSError as e: print(e)"
    )
    shown = BubblewrapSandbox().run(code, b"", SMALL).output.decode()
    assert "do-not-leak" not in shown
    assert "WANDB" not in shown
    assert not shown.startswith("0 ")
    assert "'home'" not in shown
