"""How fast verifiers are, and what hanging ones cost: what `scalerl bench verify` measures."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from scalerl.task.answer_pairs import PAIRS
from scalerl.task.code_tests import CodeTest, CodeTests
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.math_verifier import MathVerifier
from scalerl.task.pool import KillablePool
from scalerl.task.process_tree import read_processes, usage_below
from scalerl.task.protocol import Example, Judgement
from scalerl.task.sandbox import BubblewrapSandbox


@dataclass(frozen=True, slots=True)
class Throughput:
    """`judged` completions in `seconds` of wall time and `cpu_seconds` of this process, its workers and the
    programs; `as_wanted` of them were judged as they should be.
    """

    name: str
    judged: int
    as_wanted: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Completions a second of wall time."""
        return self.judged / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Completions a second on one core of an idle machine."""
        return self.judged / self.cpu_seconds


@dataclass(frozen=True, slots=True)
class HangingPool:
    """Jobs of which some hang until they are killed. `ideal_seconds`: what the honest ones take alone on
    this machine now, and the hanging ones' limits spread over the workers.
    """

    jobs: int
    hanging: int
    killed: int
    honest_done: int
    seconds: float
    ideal_seconds: float

    @property
    def over_ideal(self) -> float:
        """Measured over ideal."""
        return self.seconds / self.ideal_seconds


def _timed(
    name: str, verifier: MathVerifier | CodeVerifier, asked: list[tuple[Example, str, bool]]
) -> Throughput:
    examples, texts, wanted = (list(column) for column in zip(*asked, strict=True))
    start, cpu = time.perf_counter(), _cpu_seconds()
    judged = verifier(examples, texts)
    seconds, cpu_seconds = time.perf_counter() - start, _cpu_seconds() - cpu
    right = sum(_word(word) is want for word, want in zip(judged, wanted, strict=True))
    return Throughput(name, len(asked), right, seconds, cpu_seconds)


def _cpu_seconds() -> float:
    """CPU time of this process, of its children that ended, and of its descendants that live."""
    spent = os.times()
    ended = spent.user + spent.system + spent.children_user + spent.children_system
    return ended + usage_below(read_processes(), os.getpid()).cpu_seconds


def _word(judgement: Judgement | None) -> bool | None:
    return None if judgement is None else judgement.passed


def _example(answer: str) -> Example:
    return Example(id="x", prompt="?", answer=answer)


def simple_answers(count: int) -> Throughput:
    """Integers in a box after some thinking, half of them right; all are decided in this process."""
    asked = [
        (_example(str(n)), f"thinking</think>So \\boxed{{{n + n % 2}}}<|im_end|>", n % 2 == 0)
        for n in range(count)
    ]
    return _timed("simple answers", MathVerifier(workers=1), asked)


def table_of_pairs(workers: int) -> Throughput:
    """The table of answer pairs: a part of it needs math-verify in worker processes (warm, as in a run)."""
    verifier = MathVerifier(workers=workers, limit_seconds=30.0)
    try:
        verifier.pool.map([("scalerl.task.math_worker:equivalent", ("\\sqrt{8}", "2\\sqrt{2}"))] * workers)
        asked = [
            (_example(gold), text if "\\boxed" in text else f"Thus \\boxed{{{text}}}", right)
            for gold, text, right in PAIRS
        ]
        return _timed("answer pairs", verifier, asked)
    finally:
        verifier.close()


def programs(count: int, workers: int) -> Throughput | None:
    """Short programs, one test each, in the sandbox; None without bubblewrap."""
    if shutil.which("bwrap") is None:
        return None
    tests = CodeTests(None, (CodeTest("20 22\n", "42\n"),))
    example = Example(id="x", prompt="?", answer="", payload={"tests": tests})
    lines = ("a, b = map(int, input().split())\nprint(a + b)", "print(41)")
    asked = [(example, f"```python\n{lines[n % 2]}\n```", n % 2 == 0) for n in range(count)]
    return _timed("programs", CodeVerifier(BubblewrapSandbox(), workers=workers), asked)


def hanging_pool(workers: int, *, jobs: int = 1000, limit_seconds: float = 0.3) -> HangingPool:
    """Run `jobs` of 4 ms, one in twenty of which hangs instead."""
    hanging = jobs // 20
    with KillablePool(workers=workers, limit_seconds=limit_seconds) as pool:
        pool.map([("operator:add", (1, 1))] * workers)  # start the processes
        start = time.perf_counter()
        pool.map([("time:sleep", (0.004,))] * (jobs - hanging))
        ideal = time.perf_counter() - start + hanging * limit_seconds / workers
        start = time.perf_counter()
        outcomes = pool.map([("time:sleep", (60 if n % 20 == 7 else 0.004,)) for n in range(jobs)])
        seconds = time.perf_counter() - start
    killed = sum(outcome.failure == "timeout" for outcome in outcomes)
    done = sum(outcome.failure is None for outcome in outcomes)
    return HangingPool(jobs, hanging, killed, done, seconds, ideal)
