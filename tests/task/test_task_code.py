"""Programs in the sandbox and without it; what the verifier makes of failures; the watchdog's arithmetic."""

import os

import pytest
from code_problems import SMALL, SUM, fenced, needs_bubblewrap, problem

from scalerl.errors import UserError
from scalerl.task import code_tests, sandbox_command
from scalerl.task.bare_process import BareProcess
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.process_tree import ProcessStat, parse_stat, usage_below
from scalerl.task.sandbox import BubblewrapSandbox
from scalerl.task.watchdog import SandboxResult


@pytest.fixture(scope="module")
def sandboxed():
    return CodeVerifier(BubblewrapSandbox(), limits=SMALL, workers=2)


@needs_bubblewrap
def test_right_and_wrong_programs(sandboxed):
    right = "a, b = map(int, input().split())\nprint(a + b)"
    texts = [
        fenced(right),
        fenced("print(42)"),
        fenced("print(41)"),
        "no program",
        fenced("raise SystemExit(1)"),
    ]
    judged = sandboxed([problem(SUM)] * 5, texts)
    assert [j.passed for j in judged] == [True, False, False, False, False]
    assert [j.reward for j in judged] == [1.0, -1.0, -1.0, -1.0, -1.0]


@needs_bubblewrap
def test_functions_and_methods(sandboxed):
    tests = code_tests.parse_tests(
        [{"testtype": "functional", "input": "[1, 2, 3]\n2", "output": "[3, 4, 5]"}], {"func_name": "shift"}
    )
    method = (
        "class Solution:\n"
        "    def shift(self, xs: List[int], k: int) -> List[int]:\n"
        "        print('noise')\n"
        "        return [x + k for x in xs]"
    )
    plain = "def shift(xs, k):\n    return tuple(x + k for x in xs)"
    judged = sandboxed(
        [problem(tests)] * 3, [fenced(method), fenced(plain), fenced("def shift(xs, k): return xs")]
    )
    assert [j.passed for j in judged] == [True, True, False]


@needs_bubblewrap
def test_programs_may_use_threads_recursion_and_files(sandboxed):
    code = """
import sys, threading
sys.setrecursionlimit(1 << 20)
threading.stack_size(32 << 20)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
def main():
    a, b = map(int, open(0).read().split())
    open('/tmp/x', 'w').write(str(a + b))
    assert depth(20000) == 20000
    print(open('/tmp/x').read())
t = threading.Thread(target=main); t.start(); t.join()
"""
    assert sandboxed([problem(SUM)], [fenced(code)])[0].passed


def test_without_bubblewrap_code_is_refused(monkeypatch):
    monkeypatch.setattr(
        sandbox_command.shutil, "which", lambda name: None if name == "bwrap" else f"/usr/bin/{name}"
    )
    with pytest.raises(UserError, match="unsafe_no_sandbox"):
        BubblewrapSandbox()


def test_bare_process_judges_and_limits():
    verifier = CodeVerifier(BareProcess(), limits=SMALL, workers=2)
    texts = ["a, b = map(int, input().split())\nprint(a + b)", "while True: pass", "print(1)"]
    assert [j.passed for j in verifier([problem(SUM)] * 3, [fenced(t) for t in texts])] == [
        True,
        False,
        False,
    ]


class Flaky:
    """A sandbox that fails a given number of times."""

    def __init__(self, failures):
        self.left = failures

    def run(self, code, stdin, limits):
        self.left -= 1
        if self.left >= 0:
            return SandboxResult("failed", None, b"", 0.0)
        return SandboxResult("exited", 0, str(sum(map(int, stdin.split()))).encode(), 0.0)


def test_failed_sandbox_is_tried_once_more_then_no_judgement():
    assert CodeVerifier(Flaky(1))([problem(SUM)], [fenced("x")])[0].passed
    assert CodeVerifier(Flaky(2))([problem(SUM)], [fenced("x")])[0] is None


def test_first_failure_stops():
    class Counting(Flaky):
        runs = 0

        def run(self, code, stdin, limits):
            Counting.runs += 1
            return SandboxResult("exited", 0, b"wrong", 0.0)

    CodeVerifier(Counting(0))([problem(SUM)], [fenced("x")])
    assert Counting.runs == 1


def test_stat_line_with_an_evil_name():
    fields = [
        "S",
        "7",
        *["0"] * 9,
        "100",
        "50",
        "25",
        "25",
        "20",
        "0",
        "3",
        "0",
        "9",
        "4096",
        "10",
        *["0"] * 5,
    ]
    stat = parse_stat("123 (a) R (b) c) " + " ".join(fields))
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert stat == ProcessStat(7, 3, 200 / ticks, 10 * page)


def test_usage_counts_the_tree_and_nothing_else():
    table = {n: ProcessStat(parent, 1, 1.0, 10) for n, parent in {2: 1, 3: 2, 4: 3, 5: 1, 6: 4}.items()}
    found = usage_below(table, 2)
    assert (found.tasks, found.cpu_seconds, found.resident_bytes) == (3, 3.0, 30)
