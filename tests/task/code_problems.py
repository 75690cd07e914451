"""What the tests of programs share: a problem, a completion with a program, tight limits."""

import os
import shutil
from pathlib import Path

import pytest

from scalerl.task import code_tests
from scalerl.task.process_tree import read_processes, usage_below
from scalerl.task.protocol import Example
from scalerl.task.sandbox_command import Limits

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap isn't installed")
SMALL = Limits(cpu_seconds=1.0, wall_seconds=3.0, memory_bytes=200 << 20, tasks=16, output_bytes=1 << 20)
SUM = code_tests.CodeTests(
    None, (code_tests.CodeTest("20 22\n", "42\n"), code_tests.CodeTest("1 2\n", "3\n"))
)


def problem(tests):
    return Example(id="x", prompt="?", answer="", payload={"tests": tests})


def fenced(code):
    return f"Here it is.\n```python\n{code}\n```\n<|im_end|>"


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
