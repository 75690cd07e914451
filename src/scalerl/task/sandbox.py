"""Run one untrusted program in a sandbox under a watchdog: no network, read-only files, an unprivileged user.

The watchdog looks at the whole process tree from outside: tasks, total memory, cpu time, wall time, output.
Limits that the kernel enforces per process stop neither a fork bomb nor many processes of moderate size.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from contextlib import ExitStack, suppress

from scalerl.errors import UserError
from scalerl.task import seccomp
from scalerl.task.process_tree import ProcessTable, runs
from scalerl.task.sandbox_command import Limits, SandboxTools, build_command, find_tools
from scalerl.task.watchdog import SandboxResult, Watch, memory_file

_FIRST_USER_ID, _USER_IDS = 200_000, 60_000


class BubblewrapSandbox:
    """Runs programs under bubblewrap. Raises UserError on first use where it isn't installed or doesn't
    work.
    """

    def __init__(self) -> None:
        self.tools: SandboxTools = find_tools()
        self._table = ProcessTable()
        self._user_ids = itertools.count(os.getpid())
        self._filter = seccomp.program()
        self._probe()

    def _probe(self) -> None:
        """Make sure once that programs run at all: else every program would look wrong."""
        result = self.run("print(6 * 7)", b"", Limits())
        if result.ending != "exited" or result.output.strip() != b"42":
            raise UserError(
                "bubblewrap is installed but can't run a program here (user namespaces may be forbidden: see "
                "kernel.unprivileged_userns_clone, or run as root); "
                "pass unsafe_no_sandbox: true to do without it"
            )

    def run(self, code: str, stdin: bytes, limits: Limits) -> SandboxResult:
        """Run a Python program. Every process of it is gone when this returns."""
        with ExitStack() as stack:
            code_fd = memory_file(code.encode("utf-8", "surrogatepass"), stack)
            filter_fd = memory_file(self._filter, stack) if self._filter else None
            status_read, status_write = os.pipe()
            stack.callback(os.close, status_read)
            command = build_command(
                self.tools,
                limits,
                code_fd=code_fd,
                user_id=_FIRST_USER_ID + next(self._user_ids) % _USER_IDS,
                status_fd=status_write,
                seccomp_fd=filter_fd,
            )
            try:
                process = subprocess.Popen(
                    command,
                    stdin=memory_file(stdin, stack),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={},
                    pass_fds=[fd for fd in (code_fd, status_write, filter_fd) if fd is not None],
                )
            finally:
                os.close(status_write)
            return self._finish(Watch(process, limits, self._table), status_read)

    def _finish(self, watch: Watch, status_read: int) -> SandboxResult:
        stdout = watch.process.stdout
        assert stdout is not None
        try:
            ending = watch.follow(stdout, status_read)
        finally:
            _end(watch)
            stdout.close()
        if watch.first_process() is None:
            ending = "failed"
        status = watch.process.returncode if ending == "exited" else None
        return SandboxResult(ending, status, bytes(watch.output), time.monotonic() - watch.started)


def _end(watch: Watch) -> None:
    """Kill what still runs: the namespace's first process takes all others with it; then wait till it is
    gone.
    """
    first = watch.first_process()
    if first is not None:
        with suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)
    try:
        watch.process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        watch.process.kill()
        watch.process.wait()
    deadline = time.monotonic() + 5.0
    while first is not None and runs(first) and time.monotonic() < deadline:
        time.sleep(0.001)
