"""The lake's storage: a local directory or an object store, behind one small interface.

Nothing under a key is ever replaced except unfinished files under `_tmp/`; that is what the commit
protocol rests on.  Reading, listing and deleting go through obstore everywhere; where a directory
can promise more (flushing, hard links, renaming) `local.py` says how.
"""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from obstore import exceptions
from obstore.store import ObjectStore, from_url

from pipeline.errors import LakeError, LakeUnusable, LostPartition
from pipeline.lake.keystore import KeyStore, open_key_store
from pipeline.lake.layout import TMP

if TYPE_CHECKING:
    from obstore.store import RetryConfig

_RETRIES: "RetryConfig" = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
_MISSING = (FileNotFoundError, exceptions.NotFoundError)


class StoredObject(NamedTuple):
    """What a listing tells of an object."""

    key: str
    size_bytes: int


class Store:
    """An object store under a prefix; every method raises `LakeError` when the store fails.

    `location` is the URL or directory, for messages; `bucket_keys` are those of sealed files.
    """

    def __init__(self, objects: ObjectStore, location: str) -> None:
        self.objects, self.location = objects, location
        self.bucket_keys: KeyStore = open_key_store()

    @staticmethod
    def open(location: str | Path, *, create: bool = False) -> "Store":
        """The store at a directory, `file://`, `s3://`, `gs://` or `az://` URL.

        Endpoint, region and credentials come from the environment (for S3 the usual `AWS_…`).
        A directory that is missing is made (mode 0700) only if `create`.
        """
        from pipeline.lake.local import LocalStore

        scheme, separator, path = str(location).partition("://")
        if not separator:
            return LocalStore.at(Path(location), create=create)
        if scheme == "file":
            return LocalStore.at(Path(path), create=create)
        with lake_errors():
            return Store(from_url(str(location), retry_config=_RETRIES), str(location))

    def get(self, key: str) -> bytes:
        """The object's bytes; `LakeError` with code "missing" if there is none."""
        data = self.get_or_none(key)
        if data is None:
            raise _missing(key)
        return data

    def get_or_none(self, key: str) -> bytes | None:
        with lake_errors():
            try:
                return bytes(self.objects.get(key).bytes())
            except _MISSING:
                return None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes of the object from byte `start`; "missing" as for `get`."""
        with lake_errors():
            try:
                return bytes(self.objects.get_range(key, start=start, length=length))
            except _MISSING:
                raise _missing(key) from None

    def exists(self, key: str) -> bool:
        with lake_errors():
            try:
                self.objects.head(key)
            except _MISSING:
                return False
            return True

    def written_us(self, key: str) -> int:
        """When the object was written by the clock of the store (epoch microseconds)."""
        with lake_errors():
            return int(self.objects.head(key)["last_modified"].timestamp() * 1_000_000)

    def walk(self, folder: str, *, after: str | None = None) -> Iterator[StoredObject]:
        """Every object below `folder`, in no order; only keys above `after` if given."""
        with lake_errors():
            for batch in self.objects.list(folder, offset=after, chunk_size=1000):
                yield from (StoredObject(item["path"], item["size"]) for item in batch)

    def folders(self, folder: str) -> list[str]:
        """The keys of the folders directly below `folder`, sorted."""
        with lake_errors():
            return sorted(self.objects.list_with_delimiter(folder)["common_prefixes"])

    def remove_empty(self, folder: str) -> None:
        """Removes a folder if nothing lies in it; an object store has none."""

    def left_behind(self) -> list[str]:
        """Unfinished files without a bucket in their name that no writer can still be at; an object
        store has none."""
        return []

    def delete(self, key: str) -> None:
        """Removes an object; one that is gone already is no error."""
        with lake_errors(), suppress(*_MISSING):
            self.objects.delete(key)

    def check_writable(self) -> None:
        """Raises `LakeError` now if a writer would fail later, or if nothing could be removed."""
        if self.keeps_versions():
            raise LakeUnusable(VERSIONED, code="versioned", hint=VERSIONED_HINT)

    def keeps_versions(self) -> bool:
        """Whether the store keeps what is deleted, by what it answers to a write.

        Amazon S3 and Azure give a new object a version where versions are kept; Google always does,
        so that it cannot be told there.
        """
        key = f"{TMP}/put/{secrets.token_hex(16)}"
        with lake_errors():
            version = self.objects.put(key, b"", use_multipart=False)["version"]
        self.delete(key)
        return version not in (None, "null") and not self.location.startswith("gs://")

    def put_tmp(self, key: str, data: bytes) -> None:
        """Writes an unfinished file under `_tmp/`, in place of an older one."""
        with lake_errors():
            self.objects.put(key, data, use_multipart=False)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Writes `key` unless it is taken; True if this call wrote it.  Durable on return.

        After a network failure the store may hold what it reported as failed: callers read back.
        """
        with lake_errors():
            try:
                self.objects.put(key, data, mode="create", use_multipart=False)
            except (FileExistsError, exceptions.AlreadyExistsError):
                return False
            return True

    def publish(self, tmp_key: str, key: str) -> bool:
        """Gives a finished file its final name, never replacing one; False if the name is taken.

        `LostPartition` if the unfinished file was taken away by another writer.
        """
        data = self.get_or_none(tmp_key)
        if data is None:
            raise taken_over()
        return self.put_if_absent(key, data)

    def make_durable(self, keys: list[str]) -> None:
        """Flushes files and their folders to the disk; an object store has done so already."""

    def move_away(self, folder: str, to: str) -> None:
        """Makes everything below `folder` unreachable for whoever still writes there."""
        for item in list(self.walk(folder)):
            self.delete(item.key)

    def remove_folder(self, folder: str) -> None:
        """Deletes everything below `folder`."""
        for item in list(self.walk(folder)):
            self.delete(item.key)


VERSIONED = "the object store keeps every version of what is deleted"
VERSIONED_HINT = "turn versioning off for the bucket and delete old versions: they are copies"

VERIFY_HINT = "run `redactory verify` to see what else differs"


def _missing(key: str) -> LakeError:
    return LakeError(f"{key} is missing in the lake", code="missing", hint=VERIFY_HINT)


def taken_over() -> LostPartition:
    """The error of a writer whose unfinished files another one has taken away."""
    return LostPartition(
        "another writer took this partition over",
        code="taken-over",
        hint="start this ingest again if it should go on: it continues where the log stands",
    )


_BY_ERRNO = {
    errno.ENOSPC: ("no-space", "the lake's disk is full", "free some space and start again"),
    errno.EDQUOT: ("no-space", "the lake's disk quota is used up", "free some space"),
    errno.EACCES: ("no-permission", "the lake may not be written or read", "check owner and mode"),
    errno.EPERM: ("no-permission", "the lake may not be written or read", "check owner and mode"),
    errno.EROFS: ("read-only", "the lake is on a read-only file system", "mount it for writing"),
    errno.EMFILE: ("too-many-files", "too many files are open", "raise the limit (`ulimit -n`)"),
    errno.ENOTDIR: ("no-lake", "the lake's path leads through a file", "name a directory"),
}
"""errno → (code, message, hint)."""

_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@contextmanager
def lake_errors() -> Iterator[None]:
    """Turns what the system or the object store raises into one `LakeError`."""
    try:
        yield
    except OSError as error:
        raise _from_errno(error.errno or 0) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise LakeError(
            "the object store refuses access to the lake",
            code="no-permission",
            hint="check the credentials in the environment",
        ) from error
    except exceptions.BaseError as error:
        if system := _OS_ERROR.search(str(error)):
            raise _from_errno(int(system[1])) from error
        raise LakeError(
            "the object store does not answer as it should",
            code="store-failed",
            hint="check the lake's address, region and endpoint; nothing committed is lost",
        ) from error


def _from_errno(number: int) -> LakeError:
    if number in _BY_ERRNO:
        code, message, hint = _BY_ERRNO[number]
        return LakeUnusable(message, code=code, hint=hint)
    return LakeError(f"the lake's disk failed ({os.strerror(number)})", code="io", hint="check it")
