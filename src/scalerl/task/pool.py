"""A pool of killable worker processes: each job has a hard time limit that no input can escape.

A timeout inside the worker (an alarm signal, say) fails off the main thread and inside long C calls;
several trainers got silent all-zero rewards from that. Here the parent holds the watch and kills; a worker
that hangs or dies is replaced from a warm template within milliseconds.
"""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scalerl.errors import UserError
from scalerl.task import pool_worker

Job = tuple[str, tuple[Any, ...]]  # ("module:function", arguments)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job: a JSON value, or why there is none ('timeout', 'died', or the exception's
    text).
    """

    value: Any = None
    failure: str | None = None


@dataclass(slots=True)
class _Worker:
    pid: int
    channel: socket.socket
    job: int = -1
    deadline: float = field(default=0.0)


class KillablePool:
    """Runs jobs in `workers` processes, each job for `limit_seconds` of wall time at most.

    `preload` names the modules that the template imports once; `guarded` workers may compute and nothing else
    (see pool_guard). `memory_bytes` caps the address space of a
    worker. Processes start on first use; `close` (or the interpreter's end) leaves none behind. Calls from
    several threads take turns. `replaced` counts the workers that were killed or died.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        limit_seconds: float = 5.0,
        memory_bytes: int = 4 << 30,
        preload: Sequence[str] = (),
        guarded: bool = False,
    ) -> None:
        self.workers = workers or os.cpu_count() or 1
        self.limit_seconds = limit_seconds
        self.memory_bytes = memory_bytes
        self.preload = tuple(preload)
        self.guarded = guarded
        self.replaced = 0
        self._lock = threading.Lock()
        self._template: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[_Worker] = []

    def __enter__(self) -> KillablePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run every job; outcomes in order of the jobs, whatever the order in which they ended."""
        with self._lock:
            return self._map(jobs)

    def close(self) -> None:
        """End the workers and the template."""
        for worker in self._idle:
            worker.channel.close()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._template is not None:
            self._template.kill()
            self._template.wait()
            self._template = None

    def _map(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes: list[Outcome] = [Outcome(failure="not run")] * len(jobs)
        waiting = deque(range(len(jobs)))
        busy: dict[int, _Worker] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or busy:
                    while waiting and len(busy) < self.workers:
                        self._give(jobs, waiting.popleft(), outcomes, busy, selector)
                    self._collect(outcomes, busy, selector)
            finally:
                for (
                    worker
                ) in busy.values():  # only when interrupted: their replies would be mistaken for later ones
                    self._discard(worker)
        return outcomes

    def _give(
        self,
        jobs: Sequence[Job],
        index: int,
        outcomes: list[Outcome],
        busy: dict[int, _Worker],
        selector: selectors.BaseSelector,
    ) -> None:
        worker = self._idle.pop() if self._idle else self._fork()
        try:
            pool_worker.send_frame(worker.channel, pickle.dumps(jobs[index]))
        except OSError:  # died while idle, or doesn't read: not the job's fault
            self._discard(worker)
            worker = self._fork()
            pool_worker.send_frame(worker.channel, pickle.dumps(jobs[index]))
        worker.job, worker.deadline = index, time.monotonic() + self.limit_seconds
        busy[worker.channel.fileno()] = worker
        selector.register(worker.channel, selectors.EVENT_READ)

    def _collect(
        self, outcomes: list[Outcome], busy: dict[int, _Worker], selector: selectors.BaseSelector
    ) -> None:
        """Wait for the next reply or the next deadline; free or replace the workers concerned."""
        nearest = min(worker.deadline for worker in busy.values())
        ready = {key.fd for key, _ in selector.select(max(0.0, nearest - time.monotonic()))}
        now = time.monotonic()
        for descriptor, worker in list(busy.items()):
            if descriptor in ready:
                outcome = self._read(worker)
            elif worker.deadline <= now:
                outcome = Outcome(failure="timeout")
            else:
                continue
            outcomes[worker.job] = outcome
            selector.unregister(worker.channel)
            del busy[descriptor]
            if outcome.failure in ("timeout", "died"):
                self._discard(worker)
            else:
                self._idle.append(worker)

    def _read(self, worker: _Worker) -> Outcome:
        try:
            reply = json.loads(pool_worker.receive_frame(worker.channel))
        except (OSError, EOFError, ValueError):
            return Outcome(failure="died")
        return Outcome(failure=reply["error"]) if "error" in reply else Outcome(value=reply["value"])

    def _discard(self, worker: _Worker) -> None:
        self.replaced += 1
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        worker.channel.close()

    def _fork(self) -> _Worker:
        """A fresh worker from the template; a template that died is started anew, once."""
        if self._template is None or self._template.poll() is not None:
            self._start_template()
        with suppress(OSError, EOFError):
            return self._ask_template()
        self._start_template()
        try:
            return self._ask_template()
        except (OSError, EOFError):
            raise UserError(
                f"worker processes can't start; see what this says: "
                f"python -c 'import {', '.join(self.preload)}'"
            ) from None

    def _ask_template(self) -> _Worker:
        assert self._control is not None
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        pid = pool_worker.PID.unpack(pool_worker.receive_exactly(self._control, pool_worker.PID.size))[0]
        ours.settimeout(self.limit_seconds)  # bounds a send to, or a partial reply of, a worker that stopped
        return _Worker(pid, ours)

    def _start_template(self) -> None:
        self.close()
        self._control, theirs = socket.socketpair()
        # A template of its own session: Ctrl-C at the terminal must not reach it before us.
        with theirs:
            command = [
                sys.executable,
                *("-W", "ignore::SyntaxWarning"),  # of dependencies, on import
                "-m",
                pool_worker.__name__,
                str(theirs.fileno()),
                str(self.memory_bytes),
                "guarded" if self.guarded else "free",
            ]
            self._template = subprocess.Popen(
                [*command, *self.preload],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
