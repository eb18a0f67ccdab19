"""Hyperscan databases: built once, kept on disk, read again in a millisecond.

What is kept is made of patterns alone.  Databases made of remembered values are never kept.
"""

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hyperscan

from redactors import cache
from redactors.errors import RulesetError


@dataclass(frozen=True, slots=True)
class Scanned:
    """A pattern to scan for; matches of it report `id`, with `once` only the first of a scan.

    `name` is for error messages.
    """

    name: str
    pattern: str
    id: int
    once: bool = False


class _Nothing:
    """The database without patterns, which hyperscan does not know."""

    def scan(self, text: bytes, **_handling: object) -> None:
        """Finds nothing."""


def pattern_database(patterns: Sequence[Scanned]) -> Any:
    """A database over bytes, in which `^` and `$` match at every line.

    A pattern too large for the engine is approximated, never narrowed.  Raises RulesetError that
    names a pattern which cannot be compiled.
    """
    if not patterns:
        return _Nothing()
    every = [
        hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_SINGLEMATCH if each.once else 0)
        for each in patterns
    ]
    path = _path(patterns, every)
    kept = _read(path)
    if kept is not None:
        return kept
    try:
        database = _built(patterns, every)
    except hyperscan.error:
        every = [_accepted(each, flag) for each, flag in zip(patterns, every, strict=True)]
        database = _built(patterns, every)
    cache.write(path, hyperscan.dumpb(database))
    return database


def literal_database(literals: Sequence[bytes], *, caseless: bool = False) -> Any:
    """A database over literal bytes, ids by index; never kept on disk."""
    flags = hyperscan.HS_FLAG_CASELESS if caseless else 0
    spelled = ["".join(f"\\x{byte:02x}" for byte in literal) for literal in literals]
    patterns = [Scanned("literal", pattern, index) for index, pattern in enumerate(spelled)]
    return _built(patterns, [flags] * len(patterns))


def _built(patterns: Sequence[Scanned], flags: Sequence[int]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[each.pattern.encode() for each in patterns],
        ids=[each.id for each in patterns],
        elements=len(patterns),
        flags=list(flags),
    )
    return database


def _accepted(each: Scanned, flags: int) -> int:
    """The flags under which the engine takes the pattern."""
    for attempt in (flags, flags | hyperscan.HS_FLAG_PREFILTER):
        try:
            _built([each], [attempt])
        except hyperscan.error:
            continue
        return attempt
    raise RulesetError(f"{each.name}: pattern cannot be compiled to scan with")


def _path(patterns: Sequence[Scanned], flags: Sequence[int]) -> Path:
    """Where the database is kept: by its patterns, the engine and the machine it was built for."""
    about = bytearray(f"{version('hyperscan')} {platform.machine()} ".encode())
    about += hashlib.sha256(_cpu_flags()).digest()
    for each, flag in zip(patterns, flags, strict=True):
        pattern = each.pattern.encode()
        about += b"%d %d %d " % (each.id, flag, len(pattern)) + pattern
    return cache.place("hyperscan", bytes(about), ".hs")


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
