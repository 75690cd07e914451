"""The command line of the sandbox: bubblewrap around one interpreter that sees nothing but itself and its
program.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from scalerl.errors import UserError

GUEST_PROGRAM = "/sandbox/main.py"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use. Memory and tasks are totals over all its processes.

    `cpu_seconds` decides; `wall_seconds` is for programs that wait, and generous, so that a busy machine
    doesn't turn right answers into wrong ones.
    """

    cpu_seconds: float = 6.0
    wall_seconds: float = 24.0
    memory_bytes: int = 1 << 30
    tasks: int = 32
    output_bytes: int = 4 << 20
    file_bytes: int = 16 << 20
    stack_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class SandboxTools:
    """Where the programs are that build the sandbox. `setpriv` is needed (and used) by root only."""

    bwrap: str
    prlimit: str
    setpriv: str
    python: str
    python_prefix: str


def find_tools() -> SandboxTools:
    """Look the tools up; raises UserError with the package to install."""
    needed = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
    found = {name: shutil.which(name) for name in needed}
    for name, path in found.items():
        if path is None and (name != "setpriv" or os.geteuid() == 0):
            raise UserError(
                f"code tasks run model-written programs in a sandbox, which needs {name!r}: install the "
                f"package {needed[name]} (Debian: apt-get install {needed[name]}), or pass "
                f"unsafe_no_sandbox: true to run them with nothing but resource limits around them"
            )
    paths = {name: os.path.realpath(path) for name, path in found.items() if path}
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))  # not a virtual environment's
    return SandboxTools(paths["bwrap"], paths["prlimit"], paths.get("setpriv", ""), python, sys.base_prefix)


def rlimits(limits: Limits, *, tasks: bool) -> list[str]:
    """Flags of `prlimit`: per process, so a second line of defence behind the watchdog's totals.

    `tasks`: also limit the user's number of tasks, which is right only where the program has a user id of
    its own.
    """
    cpu = int(limits.cpu_seconds) + 2
    flags = [f"--as={limits.memory_bytes}", f"--fsize={limits.file_bytes}", f"--stack={limits.stack_bytes}"]
    flags += [f"--cpu={cpu}", "--nofile=64", "--core=0", "--memlock=0", "--msgqueue=0"]
    return [*flags, f"--nproc={limits.tasks}"] if tasks else flags


def _directories(path: Path) -> list[str]:
    """Make the parents of a mount point readable; bubblewrap would make them private."""
    flags: list[str] = []
    for parent in [*reversed(path.parents)][1:]:
        flags += ["--perms", "0755", "--dir", str(parent)]
    return flags


def _bind(path: str) -> list[str]:
    return [*_directories(Path(path)), "--ro-bind", path, path]


def _system(tools: SandboxTools, as_root: bool) -> list[str]:
    flags: list[str] = []
    for library in ("/usr/lib", "/usr/lib64", "/lib", "/lib64"):
        if os.path.islink(library):
            flags += ["--symlink", os.readlink(library), library]
        elif os.path.isdir(library):
            flags += _bind(library)
    prefix = os.path.realpath(tools.python_prefix)
    flags += _bind(
        tools.python if prefix == "/usr" else prefix
    )  # Debian's own Python has its library in /usr/lib
    if as_root:
        flags += _bind(tools.setpriv)
    return flags


def _devices_and_scratch(limits: Limits) -> list[str]:
    scratch = str(limits.file_bytes)
    return [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", scratch, "--tmpfs", "/tmp"),
        *("--perms", "1777", "--size", scratch, "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--chdir", "/tmp"),
    ]


def build_command(
    tools: SandboxTools,
    limits: Limits,
    *,
    code_fd: int,
    user_id: int,
    status_fd: int,
    seccomp_fd: int | None,
) -> list[str]:
    """The whole command: run the program that `code_fd` holds.

    `user_id`: whom root hands the program to (another user keeps its own id, and gets a namespace in which
    it is nobody). `status_fd`: where bubblewrap reports the sandbox's first process and the exit status.
    """
    as_root = os.geteuid() == 0
    command = [tools.prlimit, *rlimits(limits, tasks=as_root), "--", tools.bwrap]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--setenv", "PYTHONHASHSEED", "0"]
    command += ["--setenv", "LANG", "C.UTF-8", "--json-status-fd", str(status_fd)]
    command += _system(tools, as_root) + _devices_and_scratch(limits)
    command += [*_directories(Path(GUEST_PROGRAM)), "--perms", "0444"]
    command += ["--ro-bind-data", str(code_fd), GUEST_PROGRAM]
    command += ["--remount-ro", "/"]
    if seccomp_fd is not None:
        command += ["--seccomp", str(seccomp_fd)]
    command += ["--cap-drop", "ALL"]
    interpreter = [tools.python, "-I", "-S", "-B", GUEST_PROGRAM]
    if not as_root:
        return [*command, "--unshare-user", "--uid", "65534", "--gid", "65534", "--", *interpreter]
    command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP", "--"]
    command += [
        tools.setpriv,
        "--reuid",
        str(user_id),
        "--regid",
        str(user_id),
        "--clear-groups",
        "--inh-caps=-all",
    ]
    return [*command, "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs", "--", *interpreter]
