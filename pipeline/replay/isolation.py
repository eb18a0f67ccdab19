"""Denies a replay the world: sockets, programs, and files but for what it may see.

The kernel does it where it can.  Python's audit hook sees the same attempts, turns them into an
error that names the place, and notes them, so that an agent which catches it is stopped all the
same; alone it is no wall, since native code goes round it.
"""

import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import platformdirs

from pipeline.errors import PipelineError, UsageError
from pipeline.replay import kernel
from pipeline.replay.errors import Denied, Place

AUDIT_HOOK: Final = "audit hook"

_SYSTEM: Final = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")

_SOCKETS: Final = frozenset(
    {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"}
    | {"socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_PROGRAMS: Final = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"}
    | {"os.spawn", "pty.spawn"}
)
_CHANGES: Final = frozenset(
    {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link"}
    | {"os.symlink", "os.truncate", "os.utime", "os.setxattr", "os.removexattr"}
)
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Protection:
    """What keeps a replay from the network, from starting programs, and from files."""

    sockets: str
    programs: str
    files: str

    @property
    def is_whole(self) -> bool:
        """Whether the kernel keeps it from all three."""
        return AUDIT_HOOK not in (self.sockets, self.programs, self.files)

    def as_dict(self) -> dict[str, str]:
        """For JSON output."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Confines:
    """What a replay may see: `readable` files and folders, and a `scratch` folder of its own."""

    scratch: Path
    readable: tuple[Path, ...]

    def check_apart(self, archive: Path) -> None:
        """Raises UsageError if an archive lies where the agent may read."""
        place = archive.resolve()
        for path in (*self.readable, self.scratch):
            if place.is_relative_to(path.resolve()):
                raise UsageError(
                    f"{archive} lies in {path}, where the agent's code may read",
                    code="archive-in-sight",
                    hint="move it, or start the replay with another import path",
                )


def confines(scratch: Path, more: Iterable[Path] = ()) -> Confines:
    """The interpreter, what it imports from, and no more."""
    places = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *sys.path]
    found = {Path(place) for place in (*places, *_SYSTEM, *_DEVICES) if place}
    found.add(platformdirs.user_cache_path("redactory"))  # compiled rules
    return Confines(scratch, tuple(sorted({*found, *more})))


def enclose(inside: Confines, *, use_kernel: bool = True) -> Protection:
    """Closes this process in, for good."""
    writable = (inside.scratch, Path("/dev/null"))
    files = use_kernel and kernel.confine_files(inside.readable, writable)
    calls = use_kernel and kernel.deny_sockets_and_programs()
    by = "seccomp" if calls else AUDIT_HOOK
    return Protection(by, by, "landlock" if files else AUDIT_HOOK)


def check_accepted(protection: Protection, *, accept_audit_hook: bool) -> None:
    """Raises PipelineError unless the kernel keeps a replay in, or less was accepted."""
    if not (protection.is_whole or accept_audit_hook):
        raise PipelineError(
            "only Python's audit hook keeps this replay from the world",
            code="audit-hook",
            hint="use Linux with seccomp and Landlock, or say --accept-audit-hook",
        )


def watch(scratch: Path, place: Callable[[], Place], note: Callable[[Denied], None]) -> None:
    """Denies what goes past the boundary, and notes it; cannot be undone."""
    own = str(scratch.resolve()) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        what = _reach(event, arguments, own)
        if what:
            denied = Denied(place(), f"the agent tried to {what}, past its boundary")
            note(denied)
            raise denied

    sys.addaudithook(hook)


def _reach(event: str, arguments: tuple[Any, ...], own: str) -> str:
    """What an audited event reaches for that is denied; "" if it is not."""
    # A socketpair leads nowhere: event loops need one.
    if event in _SOCKETS or (event == "socket.__new__" and arguments[1] != socket.AF_UNIX):
        return "use the network"
    if event in _PROGRAMS:
        return "start a program"
    if event == "open" and _is_write(arguments) and not _is_own(arguments[0], own):
        return "write a file outside its scratch directory"
    if event in _CHANGES and not all(_is_own(path, own) for path in _paths(arguments)):
        return "change a file outside its scratch directory"
    return ""


def _is_write(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(mode, str):
        return any(sign in mode for sign in "wax+")
    return bool(flags & _WRITES)


def _paths(arguments: tuple[Any, ...]) -> list[Any]:
    return [each for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]


def _is_own(path: Any, own: str) -> bool:
    if isinstance(path, int) or path == "/dev/null":
        return True
    return (os.path.realpath(os.fsdecode(path)) + os.sep).startswith(own)
