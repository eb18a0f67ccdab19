"""Copies of rows outside the tables: entered before they are made, removed at their deadline.

Entries are numbered in `_audit/copies/`.  A copy's deadline is that of the first row in it to go.
A copy on this machine is deleted by the sweep; one that is out of reach is named in the receipt
until somebody says that it is gone.
"""

import getpass
import hashlib
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, Literal

from pipeline.errors import LakeError, UsageError
from pipeline.lake.commits import system_clock_us
from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import AUDIT, new_claim, parse_bucket
from pipeline.lake.numbered import NumberedLog
from pipeline.lake.store import Store, lake_errors
from pipeline.retention.documents import FORMAT, decode

COPIES: Final = f"{AUDIT}/copies"

Kind = Literal["query", "html", "bundle", "external"]


@dataclass(frozen=True, slots=True)
class Copy:
    """One entry: a copy that is about to be made, is finished, or is gone.

    `location` is an absolute path on `host`, or any address.  `deadline_us` is epoch microseconds.
    `classes` are those whose rows it may hold (none: any).  `of` names the entry that this one
    continues: with `sha256` the copy is finished, with `outcome` it is gone.
    """

    number: int
    claim: str
    now_us: int
    by: str
    kind: Kind
    host: str
    location: str
    deadline_us: int
    sha256: str = ""
    size_bytes: int = 0
    of: int | None = None
    outcome: str = ""
    classes: tuple[str, ...] = ()
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Copier:
    """Enters copies on behalf of `by`; `host` names this machine, `clock_us` gives epoch µs."""

    store: Store
    by: str
    host: str
    clock_us: Callable[[], int]

    def export(
        self,
        path: Path,
        kind: Kind,
        files: Iterable[FileEntry],
        write: Callable[[BinaryIO], object],
    ) -> Copy:
        """Copies rows of `files` to a new file (0600): entered, written, flushed, finished.

        It goes with the first of their buckets.  Raises `UsageError` if the file is there already,
        or there are no rows to copy.
        """
        files = list(files)
        deadline_us = first_deadline_us(files)
        if deadline_us is None:
            raise UsageError(
                "there is nothing to export", code="empty", hint="the lake has no such rows"
            )
        location = path.expanduser().absolute()
        if location.exists():
            raise UsageError(
                f"{path} is there already", code="copy-exists", hint="choose another name"
            )
        entry = self.register(kind, str(location), deadline_us, _classes_of(files))
        with lake_errors():
            descriptor = os.open(location, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        data = location.read_bytes()
        return self._append(
            replace(
                entry,
                of=entry.number,
                sha256=hashlib.sha256(data).hexdigest(),
                size_bytes=len(data),
            )
        )

    def register(
        self, kind: Kind, location: str, deadline_us: int, classes: tuple[str, ...] = ()
    ) -> Copy:
        """Enters a copy that is made elsewhere, or is about to be made here."""
        host = self.host if kind != "external" or location.startswith("/") else ""
        now_us = self.clock_us()
        return self._append(
            Copy(0, "", now_us, self.by, kind, host, location, deadline_us, classes=classes)
        )

    def shorten(self, copy: Copy, deadline_us: int) -> Copy:
        """Enters that a copy goes sooner."""
        return self._append(replace(copy, of=copy.of or copy.number, deadline_us=deadline_us))

    def close(self, copy: Copy, outcome: str) -> Copy:
        """Enters that a copy is gone."""
        return self._append(replace(copy, of=copy.of or copy.number, outcome=outcome))

    def remove(self, copy: Copy) -> None:
        """Deletes a copy and enters that it is gone; `LakeError` if it cannot be done from here."""
        if copy.host != self.host:
            raise LakeError(
                "the copy is out of reach",
                code="copy-unreachable",
                hint=f"remove it there, then: redactory retention copies gone {copy.number}",
            )
        path = Path(copy.location)
        with lake_errors():
            found = path.is_file()
            if found and copy.sha256 and _digest(path) != copy.sha256:
                raise LakeError(
                    "another file stands where the copy was made",
                    code="copy-changed",
                    hint=f"look at it, then: redactory retention copies gone {copy.number}",
                )
            path.unlink(missing_ok=True)
            if path.exists():
                raise LakeError("the copy is still there", code="copy-left")
        self.close(copy, "removed" if found else "missing")

    def _append(self, copy: Copy) -> Copy:
        log = NumberedLog(self.store, COPIES)
        while True:
            entry = replace(
                copy, number=log.last_number(1) + 1, claim=new_claim(), now_us=self.clock_us()
            )
            if log.write(entry.number, "commit", entry):
                return entry


def copier(store: Store) -> Copier:
    """Enters copies on behalf of the user of this process, on this machine."""
    return Copier(store, getpass.getuser(), platform.node(), system_clock_us)


def read_copies(store: Store) -> tuple[Copy, ...]:
    """The copies that are not known to be gone, by number; a finished one under its last entry."""
    copies: dict[int, Copy] = {}
    for entry in _entries(store):
        first = entry.of or entry.number
        if entry.outcome:
            copies.pop(first, None)
        else:
            copies[first] = entry
    return tuple(copies.values())


def find_copy(store: Store, number: int) -> Copy:
    """The copy that any of its entries' numbers names; `UsageError` if it is none or gone."""
    for copy in read_copies(store):
        if number in (copy.number, copy.of):
            return copy
    raise UsageError(
        f"there is no copy {number}",
        code="no-copy",
        hint="`redactory retention copies list` shows what there is",
    )


def first_deadline_us(files: Iterable[FileEntry]) -> int | None:
    """When the first bucket among files ends: the deadline of whatever is made from them."""
    buckets = (parse_bucket(file.path) for file in files)
    return min((bucket.starts_us for bucket in buckets if bucket is not None), default=None)


def _classes_of(files: Iterable[FileEntry]) -> tuple[str, ...]:
    buckets = (parse_bucket(file.path) for file in files)
    return tuple(sorted({bucket.retention_class for bucket in buckets if bucket is not None}))


def _entries(store: Store) -> Iterator[Copy]:
    log = NumberedLog(store, COPIES)
    for number in range(1, log.last_number(1) + 1):
        yield decode(Copy, store.get(log.key(number, "commit")))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
