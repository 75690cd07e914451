"""A system-call filter for model-written programs, as the classic BPF that bubblewrap installs.

It closes what namespaces and resource limits leave open: memory that no process's resident set shows
(memfd, System V shared memory), sockets of any kind, new namespaces (and with them unlimited tmpfs),
tracing, and kernel interfaces that no contest program needs. Numbers: Linux's syscall tables for x86_64 and
aarch64; other machines get no filter.
"""

from __future__ import annotations

import errno
import platform
import struct

# name: (x86_64, aarch64)
_DENIED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
}
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def _instruction(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, k)


def _refuse(number: int, error: int) -> bytes:
    """If the system call is `number`, return `error` to the program."""
    return _instruction(_JUMP_EQUAL, number, 0, 1) + _instruction(_RETURN, 0x00050000 | error)


def program(machine: str | None = None) -> bytes | None:
    """The filter for `machine` (default: this one), or None where its system-call numbers aren't known."""
    machine = machine or platform.machine()
    if machine not in _AUDIT_ARCH:
        return None
    column = 0 if machine == "x86_64" else 1
    parts = [
        _instruction(_LOAD, _ARCH_OFFSET),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":  # the x32 interface has the same calls under other numbers
        parts += [_instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1), _instruction(_RETURN, _KILL)]
    parts += [_refuse(numbers[column], errno.EPERM) for numbers in _DENIED.values()]
    # clone3 hides its flags in memory: "not implemented" makes the C library fall back to clone.
    parts.append(_refuse(_CLONE3[column], errno.ENOSYS))
    parts += [
        _instruction(_JUMP_EQUAL, _CLONE[column], 0, 3),
        _instruction(_LOAD, _FIRST_ARGUMENT_OFFSET),
        _instruction(_JUMP_BITS, _NEW_NAMESPACES, 0, 1),
        _instruction(_RETURN, 0x00050000 | errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(parts)
