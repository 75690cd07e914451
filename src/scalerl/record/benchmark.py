"""How fast the readers are and what memory they take: synthetic logs, each read in its own process."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_OTHERS = 60
_READ = (
    "import sys, time; from scalerl.record.load import load\n"
    "begun = time.process_time(); run = load(sys.argv[1]); curve = run.curve()\n"
    "print(time.process_time() - begun, len(curve))"
)


@dataclass(frozen=True)
class ReaderSpeed:
    """One format read once: file size, points, CPU seconds of the reading, peak memory of its process."""

    format: str
    megabytes: float
    points: int
    cpu_seconds: float
    peak_megabytes: float

    @property
    def megabytes_per_cpu_second(self) -> float:
        """Speed."""
        return self.megabytes / self.cpu_seconds


def _metrics(rng: random.Random, step: int) -> dict[str, float]:
    named = {
        "critic/score/mean": rng.random(),
        "perf/total_num_tokens": rng.randint(10**5, 10**6),
        "timing_s/step": rng.uniform(10, 90),
    }
    if step % 10 == 0:
        named["val-core/math/acc/mean@16"] = rng.random()
    return named | {f"actor/some_quantity_{k}/mean": rng.random() for k in range(_OTHERS)}


def _verl(rng: random.Random) -> Iterator[str]:
    for step in range(10**9):
        pairs = " - ".join(f"{k}:{v}" for k, v in _metrics(rng, step).items())
        yield f"\x1b[36m(TaskRunner pid=1)\x1b[0m step:{step} - {pairs}\n"
        yield (
            "\x1b[36m(Worker pid=2)\x1b[0m INFO some line of a worker that has nothing to do with metrics\n"
            * 3
        )


def _trl(rng: random.Random) -> Iterator[str]:
    for step in range(1, 10**9):
        named = {"loss": 0.1, "reward": rng.random(), "num_tokens": 1000.0 * step}
        named |= {f"completions/quantity_{k}/mean": rng.random() for k in range(20)}
        yield f"\r  1%|#   | {step}/{10**9} [00:13<1:09:15, 13.90s/it]\r{named!r}\n"


def _json_lines(rng: random.Random) -> Iterator[str]:
    for step in range(10**9):
        yield json.dumps({"step": step, **_metrics(rng, step)}) + "\n"


def _table(rng: random.Random) -> Iterator[str]:
    names = list(_metrics(rng, 0))
    yield ",".join(["step", *names]) + "\n"
    for step in range(10**9):
        row = _metrics(rng, step)
        yield ",".join([str(step), *(str(row.get(name, "")) for name in names)]) + "\n"


def _document(rng: random.Random) -> Iterator[str]:
    yield '{"best_metric": null, "log_history": [\n'
    for step in range(1, 10**9):
        named = {"step": step, "reward": rng.random(), "num_tokens": 1000 * step}
        named |= {f"completions/quantity_{k}/mean": rng.random() for k in range(20)}
        yield ("" if step == 1 else ",\n") + json.dumps(named, indent=2)


FORMATS: dict[str, tuple[Callable[[random.Random], Iterator[str]], str]] = {
    "verl console": (_verl, ""),
    "TRL console": (_trl, ""),
    "JSON lines": (_json_lines, ""),
    "CSV": (_table, ""),
    "one JSON document": (_document, "\n]}\n"),
}


def write_synthetic(path: Path, name: str, megabytes: float) -> None:
    """A log of about the given size.."""
    make, ending = FORMATS[name]
    left = int(megabytes * 1e6)
    with open(path, "w") as file:
        for piece in make(random.Random(0)):
            left -= file.write(piece)
            if left <= 0:
                break
        file.write(ending)


def measure(folder: Path, name: str, megabytes: float) -> ReaderSpeed:
    """Write a log, read it in a process of its own, take the process's peak memory."""
    path = folder / (name.replace(" ", "_") + ".log")
    write_synthetic(path, name, megabytes)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", _READ, str(path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            said = child.stdout.read().split()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"reading {path} ended with status {child.returncode}")
        size = path.stat().st_size / 1e6
        return ReaderSpeed(name, size, int(said[1]), float(said[0]), usage.ru_maxrss / 1024)
    finally:
        path.unlink(missing_ok=True)
