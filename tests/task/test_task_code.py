"""Tests of problems, programs in the sandbox, hostile programs, SandboxFusion."""

import base64
import json
import os
import pickle
import shutil
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hostile_programs import FUNCTIONS, PROGRAMS

from scalerl.errors import UserError
from scalerl.task import code_tests, sandbox_command
from scalerl.task.bare_process import BareProcess
from scalerl.task.code_output import same_output, same_result
from scalerl.task.code_program import extract_program
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.fusion import FusionRunner
from scalerl.task.process_tree import ProcessStat, parse_stat, read_processes, usage_below
from scalerl.task.protocol import Example
from scalerl.task.sandbox import BubblewrapSandbox
from scalerl.task.sandbox_command import Limits
from scalerl.task.watchdog import SandboxResult

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap isn't installed")
SMALL = Limits(cpu_seconds=1.0, wall_seconds=3.0, memory_bytes=200 << 20, tasks=16, output_bytes=1 << 20)
SUM = code_tests.CodeTests(
    None, (code_tests.CodeTest("20 22\n", "42\n"), code_tests.CodeTest("1 2\n", "3\n"))
)


def problem(tests):
    return Example(id="x", prompt="?", answer="", payload={"tests": tests})


def fenced(code):
    return f"Here it is.\n```python\n{code}\n```\n<|im_end|>"


@pytest.fixture(scope="module")
def sandboxed():
    return CodeVerifier(BubblewrapSandbox(), limits=SMALL, workers=2)


# --- reading tests


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


# --- running


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


def ours():
    """Processes below this one, or of any sandbox."""
    table = read_processes()
    below = usage_below(table, os.getpid()).tasks
    guests = sum(b"/sandbox/main.py" in _cmdline(pid) for pid in table)
    return below + guests


def _cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


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


# --- SandboxFusion


@pytest.fixture
def fusion():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = self.answer(body)
            self.send_response(500 if reply is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def answer(self, body):
            assert self.path == "/run_code"
            assert body["language"] == "python"
            if "boom" in body["code"]:
                return None
            if "sick" in body["code"]:
                return {"status": "SandboxError", "message": "no", "run_result": None}
            if "slow" in body["code"]:
                return {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "stdout": ""}}
            total = str(sum(map(int, body["stdin"].split())))
            done = {"status": "Finished", "return_code": 0, "stdout": total + "\n", "stderr": ""}
            return {"status": "Success", "run_result": done}

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_fusion_back_end(fusion):
    verifier = CodeVerifier(FusionRunner(fusion), workers=2)
    judged = verifier([problem(SUM)] * 4, [fenced(t) for t in ("add", "slow", "sick", "boom")])
    assert [j.passed if j else None for j in judged] == [True, False, None, None]


def test_fusion_that_is_not_there_fails_and_bad_address_is_refused():
    gone = FusionRunner("http://127.0.0.1:9")
    assert gone.run("x", b"", SMALL).ending == "failed"
    with pytest.raises(UserError, match="fusion_url"):
        FusionRunner("file:///etc/passwd")
