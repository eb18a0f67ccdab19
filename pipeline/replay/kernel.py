"""What Linux itself can forbid a process: new sockets and programs (seccomp), files (Landlock).

Neither needs a privilege, and nothing lifts either again.  Sources: seccomp(2), landlock(7).
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_TSYNC: Final = 1
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_EPERM: Final = 1
_ENOSYS: Final = 38
_CLONE_THREAD: Final = 0x00010000
_X32: Final = 0x40000000

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

# Sockets but for socketpair, which leads nowhere; programs; other processes; ways around a filter.
_SYSCALLS: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        "audit": 0xC000003E,
        "seccomp": 317,
        "clone": 56,
        "clone3": 435,
        "socket": 41,
        "connect": 42,
        "bind": 49,
        "listen": 50,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "execveat": 322,
        "ptrace": 101,
        "process_vm_writev": 311,
        "io_uring_setup": 425,
        "bpf": 321,
        "unshare": 272,
        "setns": 308,
        "open_by_handle_at": 304,
        "mount": 165,
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "seccomp": 277,
        "clone": 220,
        "clone3": 435,
        "socket": 198,
        "connect": 203,
        "bind": 200,
        "listen": 201,
        "execve": 221,
        "execveat": 281,
        "ptrace": 117,
        "process_vm_writev": 271,
        "io_uring_setup": 425,
        "bpf": 280,
        "unshare": 97,
        "setns": 268,
        "open_by_handle_at": 265,
        "mount": 40,
    },
}
_NOT_DENIED: Final = ("audit", "seccomp", "clone", "clone3")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_FILE_ACCESS: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
_ACCESS_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many kinds of file access each version of Landlock knows; later ones as the last."""


def deny_sockets_and_programs() -> bool:
    """From now on no thread of this process opens a socket or starts a program; False where the
    kernel cannot do that."""
    numbers = _SYSCALLS.get(platform.machine())
    if numbers is None or platform.system() != "Linux":
        return False
    program = b"".join(_filter(numbers))
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    done = libc.syscall(numbers["seccomp"], _SET_MODE_FILTER, _TSYNC, head)
    return bool(done == 0)


def _filter(numbers: Mapping[str, int]) -> Iterable[bytes]:
    """A classic BPF program over the system call's number and first argument."""
    yield _op(_LOAD, 4)
    yield _op(_EQUAL, numbers["audit"], jump=1)
    yield _op(_RETURN, _KILL)
    yield _op(_LOAD, 0)
    if platform.machine() == "x86_64":
        yield _op(_AT_LEAST, _X32, skip=1)
        yield _op(_RETURN, _ERRNO | _EPERM)
    for name, number in numbers.items():
        if name not in _NOT_DENIED:
            yield _op(_EQUAL, number, skip=1)
            yield _op(_RETURN, _ERRNO | _EPERM)
    # The C library then falls back to clone, whose flags can be seen here.
    yield _op(_EQUAL, numbers["clone3"], skip=1)
    yield _op(_RETURN, _ERRNO | _ENOSYS)
    yield _op(_EQUAL, numbers["clone"], skip=3)
    yield _op(_LOAD, 16)
    yield _op(_ANY_BIT, _CLONE_THREAD, jump=1)
    yield _op(_RETURN, _ERRNO | _EPERM)
    yield _op(_RETURN, _ALLOW)


def _op(code: int, operand: int, *, jump: int = 0, skip: int = 0) -> bytes:
    """One instruction; it goes `jump` further where it holds and `skip` further where not."""
    return struct.pack("=HBBI", code, jump, skip, operand)


def confine_files(readable: Iterable[Path], writable: Iterable[Path]) -> bool:
    """From now on this thread and its children see only these files and folders; False where the
    kernel cannot do that."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if platform.system() != "Linux" or version < 1:
        return False
    every = (1 << _ACCESS_BITS.get(version, 16)) - 1
    attributes = struct.pack("QQQ", every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size_bytes = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, attributes, size_bytes, 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(libc, ruleset, path, _READ_FILE | _READ_DIR | _EXECUTE)
        for path in writable:
            _allow(libc, ruleset, path, every)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: Path, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        rights = access if path.is_dir() else access & _FILE_ACCESS
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
