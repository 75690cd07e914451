"""Follow one untrusted program from outside, and say when it has to end."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, Literal, Protocol

from scalerl.task.process_tree import ProcessTable
from scalerl.task.sandbox_command import Limits

# How a run ended. 'failed' is the sandbox's own failure: nothing can be said of the program then.
Ending = Literal["exited", "cpu", "wall", "memory", "tasks", "output", "failed"]

TICK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What a run gave: how it ended, the exit status if it exited, and its standard output."""

    ending: Ending
    exit_status: int | None
    output: bytes
    wall_seconds: float


class ProgramRunner(Protocol):
    """Runs one Python program: the sandbox, or what stands in for it."""

    def run(self, code: str, stdin: bytes, limits: Limits) -> SandboxResult:
        """Run `code` with `stdin` as its standard input."""
        ...


def memory_file(content: bytes, stack: ExitStack) -> int:
    """A descriptor that reads `content` from memory, sealed so that the program can't change it."""
    descriptor = os.memfd_create("scalerl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0xF)  # F_SEAL_SEAL | SHRINK | GROW | WRITE
    return descriptor


@dataclass(slots=True)
class Watch:
    """One run as its watchdog sees it."""

    process: subprocess.Popen[bytes]
    limits: Limits
    table: ProcessTable
    started: float = field(default_factory=time.monotonic)
    output: bytearray = field(default_factory=bytearray)
    status: bytearray = field(default_factory=bytearray)

    def follow(self, stdout: IO[bytes], status_fd: int | None) -> Ending:
        """Read until the program has ended or a limit is passed."""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if status_fd is not None:
                selector.register(status_fd, selectors.EVENT_READ)
            next_look = self.started + TICK_SECONDS
            while True:
                for key, _ in selector.select(max(0.0, next_look - time.monotonic())):
                    self._read(key.fd, status_fd, selector)
                if len(self.output) > self.limits.output_bytes:
                    return "output"
                if b"exit-code" in self.status or self.process.poll() is not None:
                    self._drain(stdout)
                    return "exited"
                if time.monotonic() >= next_look:
                    if ending := self._look():
                        return ending
                    next_look = time.monotonic() + TICK_SECONDS

    def _read(self, descriptor: int, status_fd: int | None, selector: selectors.BaseSelector) -> None:
        part = os.read(descriptor, 1 << 16)
        if not part:
            selector.unregister(descriptor)
        elif descriptor == status_fd:
            self.status += part
        else:
            self.output += part

    def _drain(self, stdout: IO[bytes]) -> None:
        """Take what the program wrote before it ended; a process it left behind may hold the pipe open."""
        os.set_blocking(stdout.fileno(), False)
        with suppress(BlockingIOError):
            while len(self.output) <= self.limits.output_bytes:
                part = os.read(stdout.fileno(), 1 << 16)
                if not part:
                    return
                self.output += part

    def _look(self) -> Ending | None:
        """Compare the whole tree's usage with the limits."""
        usage = self.table.usage_below(self.process.pid)
        if usage.resident_bytes > self.limits.memory_bytes:
            return "memory"
        if usage.tasks > self.limits.tasks:
            return "tasks"
        if usage.cpu_seconds > self.limits.cpu_seconds:
            return "cpu"
        return "wall" if time.monotonic() - self.started > self.limits.wall_seconds else None

    def first_process(self) -> int | None:
        """The host's id of the sandbox's first process: ending it ends them all."""
        for line in self.status.split(b"\n"):
            with suppress(ValueError):
                found = json.loads(line)
                if "child-pid" in found:
                    return int(found["child-pid"])
        return None
