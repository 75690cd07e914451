"""How fast the readers are and what memory they take: synthetic logs, each read in its own process."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

_OTHERS = 60
_DISTINCT = 200
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


def _metrics(rng: random.Random) -> dict[str, float]:
    named = {
        "critic/score/mean": rng.random(),
        "perf/total_num_tokens": rng.randint(10**5, 10**6),
        "timing_s/step": rng.uniform(10, 90),
    }
    return named | {f"actor/some_quantity_{k}/mean": rng.random() for k in range(_OTHERS)}


def _rows(rng: random.Random) -> Iterator[dict[str, float]]:
    """Rows of a trainer with many metrics, an evaluation in every tenth; they come back after a while."""
    pool = [_metrics(rng) for _ in range(_DISTINCT)]
    for step in itertools.count():
        evaluated = {} if step % 10 else {"val-core/math/acc/mean@16": pool[step % 7]["critic/score/mean"]}
        yield {**evaluated, **pool[step % _DISTINCT]}


def _verl(rng: random.Random) -> Iterator[str]:
    other = "\x1b[36m(Worker pid=2)\x1b[0m INFO some line of a worker that has nothing to do with metrics\n"
    for step, row in enumerate(_rows(rng)):
        pairs = " - ".join(f"{k}:{v}" for k, v in row.items())
        yield f"\x1b[36m(TaskRunner pid=1)\x1b[0m step:{step} - {pairs}\n{other * 3}"


def _trl(rng: random.Random) -> Iterator[str]:
    pool = [{f"completions/quantity_{k}/mean": rng.random() for k in range(20)} for _ in range(_DISTINCT)]
    for step in itertools.count(1):
        named = {"loss": 0.1, "reward": rng.random(), "num_tokens": 1000.0 * step, **pool[step % _DISTINCT]}
        yield f"\r  1%|#   | {step}/{10**9} [00:13<1:09:15, 13.90s/it]\r{named!r}\n"


def _nemo(rng: random.Random) -> Iterator[str]:
    timing = "".join(f"  • part_{k}: {k}.25s (3.1%)\n" for k in range(12))
    for step in itertools.count(1):
        yield (
            f"\n{'=' * 25} Step {step}/{10**9} {'=' * 25}\n▶ Preparing batch...\n▶ Training policy...\n\n"
            f"📊 Training Results:\n  • Loss: 0.0123\n  • Avg Reward: {rng.random():.4f}\n"
            f"  • Mean Generation Length: 812.25\n\n⏱️  Timing:\n  • Total step time: 40.70s\n{timing}"
        )


def _json_lines(rng: random.Random) -> Iterator[str]:
    for step, row in enumerate(_rows(rng)):
        yield orjson.dumps({"step": step, **row}).decode() + "\n"


def _table(rng: random.Random) -> Iterator[str]:
    rows = _rows(rng)
    names = list(next(rows))
    yield ",".join(["step", *names]) + "\n"
    for step, row in enumerate(rows):
        yield ",".join([str(step), *(str(row.get(name, "")) for name in names)]) + "\n"


def _document(rng: random.Random) -> Iterator[str]:
    pool = [{f"completions/quantity_{k}/mean": rng.random() for k in range(20)} for _ in range(_DISTINCT)]
    yield '{"best_metric": null, "log_history": [\n{"step": 0}'
    for step in itertools.count(1):
        named = {"step": step, "reward": rng.random(), "num_tokens": 1000 * step, **pool[step % _DISTINCT]}
        yield ",\n" + orjson.dumps(named, option=orjson.OPT_INDENT_2).decode()


def _short(line: str, head: str = "") -> Callable[[random.Random], Iterator[str]]:
    """Rows of a step and a reward, and nothing else."""

    def make(rng: random.Random) -> Iterator[str]:
        yield head
        for begin in itertools.count(1, 1000):
            yield "".join([line % (step, rng.random()) for step in range(begin, begin + 1000)])

    return make


_ROW = '{"step": %d, "reward": %.4f}'
FORMATS: dict[str, tuple[Callable[[random.Random], Iterator[str]], str]] = {
    "verl console": (_verl, ""),
    "TRL console": (_trl, ""),
    "NeMo-RL console": (_nemo, ""),
    "JSON lines": (_json_lines, ""),
    "CSV": (_table, ""),
    "one JSON document": (_document, "\n]}\n"),
    "verl console, short": (_short("step:%d - critic/score/mean:%.4f\n"), ""),
    "TRL console, short": (_short("{'step': %d, 'reward': %.4f}\n"), ""),
    "NeMo-RL console, short": (_short("==== Step %d/9 ====\n  • Avg Reward: %.4f\n"), ""),
    "name=value, short": (_short("step %d reward=%.4f\n"), ""),
    "JSON lines, short": (_short(_ROW + "\n"), ""),
    "CSV, short": (_short("%d,%.4f\n", "step,reward\n"), ""),
    "TSV, short": (_short("%d\t%.4f\n", "step\treward\n"), ""),
    "one JSON document, short": (_short(f",\n{_ROW}", '{"log_history": [\n{"step": 0}'), "\n]}\n"),
}


def write_synthetic(path: Path, name: str, megabytes: float) -> None:
    """A log of about the given size."""
    make, ending = FORMATS[name]
    left = int(megabytes * 1e6)
    with open(path, "wb") as file:
        for piece in make(random.Random(0)):
            left -= file.write(piece.encode())
            if left <= 0:
                break
        file.write(ending.encode())


def measure(folder: Path, name: str, megabytes: float) -> ReaderSpeed:
    """Write a log, read it in a process of its own, take the process's peak memory."""
    path = folder / (name.replace(" ", "_").replace("=", "_") + ".log")
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
