"""Programs without a sandbox, for those who asked for that in so many words."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from scalerl.task.process_tree import ProcessTable
from scalerl.task.sandbox_command import Limits, rlimits
from scalerl.task.watchdog import SandboxResult, Watch, memory_file


class BareProcess:
    """No sandbox: resource limits and the watchdog only. A program can do whatever you can do."""

    def __init__(self) -> None:
        self._table = ProcessTable()

    def run(self, code: str, stdin: bytes, limits: Limits) -> SandboxResult:
        """Run a Python program in a temporary folder, in a session of its own."""
        prlimit = shutil.which("prlimit")
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            path = Path(folder, "main.py")
            path.write_text(code, encoding="utf-8", errors="surrogatepass")
            prefix = [prlimit, *rlimits(limits, tasks=False), "--"] if prlimit else []
            process = subprocess.Popen(
                [*prefix, sys.executable, "-I", "-S", "-B", str(path)],
                stdin=memory_file(stdin, stack),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={},
                start_new_session=True,
            )
            watch = Watch(process, limits, self._table)
            assert process.stdout is not None
            try:
                ending = watch.follow(process.stdout, None)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                process.stdout.close()
            status = process.returncode if ending == "exited" else None
            return SandboxResult(ending, status, bytes(watch.output), time.monotonic() - watch.started)
