"""What a process and all its descendants use: count, total memory, cpu time. From /proc, for a watchdog."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One line of /proc/PID/stat, as far as it matters."""

    parent: int
    threads: int
    cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Totals over a process tree. Memory counts a page shared by two processes twice: an upper bound."""

    tasks: int
    cpu_seconds: float
    resident_bytes: int


_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def parse_stat(text: str) -> ProcessStat:
    """Read a /proc/PID/stat line (proc(5)); the command's name may itself hold blanks and parentheses."""
    fields = text.rpartition(")")[2].split()
    user, system, children_user, children_system = (int(fields[i]) for i in (11, 12, 13, 14))
    return ProcessStat(
        parent=int(fields[1]),
        threads=int(fields[17]),
        cpu_seconds=(user + system + children_user + children_system) / _TICKS,
        resident_bytes=int(fields[21]) * _PAGE,
    )


def read_processes() -> dict[int, ProcessStat]:
    """Every process that can be seen now."""
    found: dict[int, ProcessStat] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found[int(name)] = parse_stat(Path("/proc", name, "stat").read_text())
            except (OSError, IndexError, ValueError):  # it ended while we looked
                continue
    return found


def runs(pid: int) -> bool:
    """Whether a process exists and isn't a zombie (which uses nothing, and waits for its parent to look)."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def usage_below(processes: Mapping[int, ProcessStat], root: int) -> TreeUsage:
    """Totals over `root`'s descendants (without `root`).

    Inside a process namespace orphans are adopted by the namespace's first process, so none leaves the tree.
    """
    children: dict[int, list[int]] = {}
    for pid, stat in processes.items():
        children.setdefault(stat.parent, []).append(pid)
    tasks, cpu, memory = 0, 0.0, 0
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        stat = processes[pid]
        tasks, cpu, memory = tasks + stat.threads, cpu + stat.cpu_seconds, memory + stat.resident_bytes
        waiting.extend(children.get(pid, ()))
    return TreeUsage(tasks, cpu, memory)


class ProcessTable:
    """A snapshot of the processes shared by concurrent watchdogs: read at most once every
    `refresh_seconds`.
    """

    def __init__(self, refresh_seconds: float = 0.015) -> None:
        self.refresh_seconds = refresh_seconds
        self._lock = threading.Lock()
        self._read_at = -1.0
        self._processes: Mapping[int, ProcessStat] = {}

    def usage_below(self, root: int) -> TreeUsage:
        """Totals over `root`'s descendants, no older than `refresh_seconds`."""
        with self._lock:
            if time.monotonic() - self._read_at > self.refresh_seconds:
                self._processes = read_processes()
                self._read_at = time.monotonic()
            processes = self._processes
        return usage_below(processes, root)
