"""The far side of `pool`: a template process that has the heavy imports done and forks workers on request.

Forking from a warm template is what makes killing cheap: a replacement costs milliseconds instead of the
second or two that importing sympy takes. Run as `python -m scalerl.task.pool_worker CONTROL_FD MEMORY_BYTES
guarded|free MODULE...`.

Requests are pickles written by our own parent; replies are JSON, since what a worker says may have been
shaped by hostile input and must not be able to run code in the parent.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from scalerl.task import pool_guard

LENGTH = struct.Struct("!Q")
PID = struct.Struct("!q")


def send_frame(channel: socket.socket, body: bytes) -> None:
    """Write one length-prefixed message."""
    channel.sendall(LENGTH.pack(len(body)) + body)


def receive_exactly(channel: socket.socket, size: int) -> bytes:
    """Read `size` bytes; raises EOFError when the other side is gone."""
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def receive_frame(channel: socket.socket) -> bytes:
    """Read one length-prefixed message."""
    return receive_exactly(channel, LENGTH.unpack(receive_exactly(channel, LENGTH.size))[0])


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the template goes, so that a hung worker never outlives it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _answer(function: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
    module, _, name = function.partition(":")
    try:
        return {"value": getattr(importlib.import_module(module), name)(*arguments)}
    except (Exception, SystemExit) as error:  # the whole point is to report whatever the function did
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def serve(channel: socket.socket) -> None:
    """Answer requests (function name, arguments) one after another until the parent hangs up."""
    while True:
        try:
            function, arguments = pickle.loads(receive_frame(channel))
        except (EOFError, ConnectionError):
            return
        try:
            reply = json.dumps(_answer(function, arguments)).encode()
        except (TypeError, ValueError) as error:
            reply = json.dumps({"error": f"reply is not JSON: {error}"}).encode()
        send_frame(channel, reply)


def _become_worker(channel: socket.socket, memory_bytes: int, guarded: bool) -> None:
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if guarded:
        pool_guard.install()
    serve(channel)


def template(control: socket.socket, memory_bytes: int, guarded: bool) -> None:
    """Fork one worker for each file descriptor that the parent sends; answer with its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business: it hangs up
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            with suppress(ConnectionError):
                _become_worker(socket.socket(fileno=descriptors[0]), memory_bytes, guarded)
            os._exit(0)
        os.close(descriptors[0])
        control.sendall(PID.pack(pid))


if __name__ == "__main__":
    os.dup2(2, 1)  # what a library prints while it is imported or run is no output of ours
    for module in sys.argv[4:]:
        importlib.import_module(module)
    with suppress(ConnectionError):  # the parent may be killed at any time
        template(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3] == "guarded")
