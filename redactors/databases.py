"""Hyperscan databases: built once, kept on disk, read again in a millisecond.

What is kept is made of patterns alone.  Databases made of remembered values are never kept.
"""

import hashlib
import os
import platform
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hyperscan
import platformdirs

from redactors.errors import RulesetError


def pattern_database(named: Sequence[tuple[str, str]], flags: int = 0) -> Any:
    """A database over `(name, pattern)`, ids by index; over bytes, `^` and `$` at every line.

    A pattern too large for the engine is approximated, never narrowed.  Raises RulesetError that
    names a pattern which cannot be compiled.
    """
    patterns = [pattern.encode() for _, pattern in named]
    every = [flags | hyperscan.HS_FLAG_MULTILINE] * len(patterns)
    path = _path(patterns, every)
    kept = _read(path)
    if kept is not None:
        return kept
    try:
        database = _built(patterns, every)
    except hyperscan.error:
        for index, (name, _) in enumerate(named):
            every[index] = _accepted(name, patterns[index], every[index])
        database = _built(patterns, every)
    _write(path, hyperscan.dumpb(database))
    return database


def literal_database(literals: Sequence[bytes], *, caseless: bool = False) -> Any:
    """A database over literal bytes, ids by index."""
    flags = hyperscan.HS_FLAG_CASELESS if caseless else 0
    return _built(list(literals), [flags] * len(literals), literal=True)


def _built(patterns: Sequence[bytes], flags: Sequence[int], *, literal: bool = False) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=list(patterns),
        ids=list(range(len(patterns))),
        elements=len(patterns),
        flags=list(flags),
        literal=literal,
    )
    return database


def _accepted(name: str, pattern: bytes, flags: int) -> int:
    """The flags under which the engine takes `pattern`."""
    for attempt in (flags, flags | hyperscan.HS_FLAG_PREFILTER):
        try:
            _built([pattern], [attempt])
        except hyperscan.error:
            continue
        return attempt
    raise RulesetError(f"{name}: pattern cannot be compiled to scan with")


def _path(patterns: Sequence[bytes], flags: Sequence[int]) -> Path:
    """Where the database is kept: by its patterns, the engine and the machine it was built for."""
    digest = hashlib.sha256(f"{version('hyperscan')} {platform.machine()}".encode())
    digest.update(hashlib.sha256(_cpu_flags()).digest())
    for pattern, flag in zip(patterns, flags, strict=True):
        digest.update(b"%d %d " % (flag, len(pattern)) + pattern)
    return platformdirs.user_cache_path("redactory") / "hyperscan" / f"{digest.hexdigest()}.hs"


def _cpu_flags() -> bytes:
    """What the processor can do: a database built for more would not run on it."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")


def _read(path: Path) -> Any:
    try:
        database = hyperscan.loadb(path.read_bytes(), hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except (OSError, hyperscan.error):
        return None
    return database


def _write(path: Path, data: bytes) -> None:
    """Keeps `data` if it can; a cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)  # noqa: PTH105
    except OSError:
        return
