"""A guard for pool workers that score model output with libraries which may evaluate it as Python.

sympy's parser, which several scorers of reasoning-gym use, ends in `eval`. The guard is an audit hook: once
it is in a worker, nothing there can write files, start programs, open sockets, load foreign code or look
into other frames (where the reference answer is). It can't be taken out again. It is a second fence, not a
sandbox.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_REFUSED = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill", "os.remove"),
    *("os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate"),
    *("os.putenv", "shutil.", "tempfile.", "subprocess.Popen", "socket.", "pty.spawn", "ctypes.", "gc."),
    *("sys._current_frames", "sys.settrace", "sys.setprofile", "code.__new__"),
    *("ftplib.", "smtplib.", "urllib.Request", "webbrowser.open"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Refused(RuntimeError):  # noqa: N818 - what the hook answers
    """Something that scoring has no need of."""


def install() -> None:
    """Put the guard into this process, for good."""
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if not (writes or (isinstance(flags, int) and flags & _WRITING)):
            return
    elif not event.startswith(_REFUSED):
        return
    raise Refused(event)
