"""Running a study: its runs in worker processes, several at a time; each resumable on its own."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Literal

from scalerl.errors import UserError
from scalerl.loop.config import RunConfig
from scalerl.record.schema import Evaluation

MessageKind = Literal["step", "evaluation", "event", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Message:
    """News of one run: `data` is a step's row, an evaluation's pass rate and step, or a text."""

    run: str
    kind: MessageKind
    data: Any


class RunFailed(Exception):  # noqa: N818 - an outcome
    """A run of a study ended with an error; its text says which."""


def free_cores() -> int:
    """Return how many cores this process may use: as many runs go side by side."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1))


def run_study(
    runs: Sequence[RunConfig], folder: Path, parallel: int, on_message: Callable[[Message], None]
) -> None:
    """Bring every run to its last step under `folder/runs/<name>`; finished ones are only looked at.

    Raises RunFailed when a run ended with an error, after stopping the others: run again to go on.
    """
    context = multiprocessing.get_context("spawn")
    news: Queue[Message] = context.Queue()
    waiting = list(runs)
    workers: dict[str, SpawnProcess] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < parallel:
                config = waiting.pop(0)
                path = folder / "runs" / config.name
                worker = context.Process(target=_work, args=(config, path, news, os.getpid()), daemon=True)
                worker.start()
                workers[config.name] = worker
            for message in _messages(news, workers):
                on_message(message)
                if message.kind in ("failed", "stopped"):
                    raise RunFailed(f"run {message.run}: {message.data}")
                if message.kind == "done":
                    workers.pop(message.run).join()
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.join()


def _messages(news: Queue[Message], workers: Mapping[str, SpawnProcess]) -> Iterator[Message]:
    """Yield what has come within a moment; a worker that died without a word is reported as failed."""
    time.sleep(0.1)
    dead = [name for name, worker in workers.items() if not worker.is_alive()]
    told = set()
    while not news.empty():
        message = news.get()
        if message.kind in ("done", "failed", "stopped"):
            told.add(message.run)
        yield message
    for name in dead:
        if name not in told:
            yield Message(name, "failed", f"its process died (exit status {workers[name].exitcode})")


def _work(config: RunConfig, path: Path, news: Queue[Message], parent: int) -> None:
    """One run in a process of its own; ends with its parent, even one that was killed."""
    from scalerl.loop.learner import RunStopped
    from scalerl.loop.run import train_run

    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        train_run(config, path, _Reporter(config.name, news))
    except RunStopped as reason:
        news.put(Message(config.name, "stopped", str(reason)))
    except UserError as mistake:
        news.put(Message(config.name, "failed", str(mistake)))
    except Exception:
        news.put(Message(config.name, "failed", traceback.format_exc()))
    else:
        news.put(Message(config.name, "done", None))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class _Reporter:
    """The listener that sends news to the study's process."""

    def __init__(self, run: str, news: Queue[Message]) -> None:
        self._run = run
        self._news = news

    def on_step(self, row: Mapping[str, Any]) -> None:
        """Send what the display shows of a step."""
        shown = {
            "step": row["step"],
            "pass_rate": row.get("pass_rate"),
            "compute": row["compute"].model_dump(),
        }
        self._news.put(Message(self._run, "step", shown))

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Send a held-out pass rate."""
        shown = {"step": evaluation.step, "pass_rate": evaluation.pass_rate}
        self._news.put(Message(self._run, "evaluation", shown))

    def on_event(self, kind: str, message: str) -> None:
        """Send an event's text."""
        self._news.put(Message(self._run, "event", f"{kind}: {message}"))
