"""A lake in a local directory: flushed to disk, private (0700, 0600), published by hard link."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import obstore.store

from pipeline.errors import LakeError, LakeUnusable
from pipeline.faultpoints import at
from pipeline.lake import layout
from pipeline.lake.disk import flush
from pipeline.lake.keystore import check_outside, default_folder
from pipeline.lake.store import Store, lake_errors, taken_over

LEFT_BEHIND_S: Final = 3600.0
"""Age from which an unfinished log entry is its writer's no more: writing one takes a moment."""


class LocalStore(Store):
    """A directory; what it reports as written survives a power failure."""

    def __init__(self, root: Path) -> None:
        super().__init__(obstore.store.LocalStore(root), str(root))
        self.root = root

    @staticmethod
    def at(root: Path, *, create: bool) -> "LocalStore":
        root = root.expanduser().absolute()
        check_outside(default_folder(), root)
        with lake_errors():
            if create:
                _make_private(root)
            elif not root.is_dir():
                raise LakeError(
                    "there is no lake in this directory",
                    code="no-lake",
                    hint="check --lake; `redactory ingest` makes a lake",
                )
            _check_private(root)
            return LocalStore(root)

    def folders(self, folder: str) -> list[str]:
        with lake_errors():
            try:
                with os.scandir(self.root / folder) as found:
                    return sorted(f"{folder}/{item.name}" for item in found if item.is_dir())
            except FileNotFoundError:
                return []

    def left_behind(self) -> list[str]:
        folder = f"{layout.TMP}/put"
        with lake_errors():
            try:
                with os.scandir(self.root / folder) as found:
                    before = time.time() - LEFT_BEHIND_S
                    return sorted(
                        f"{folder}/{item.name}" for item in found if item.stat().st_mtime < before
                    )
            except FileNotFoundError:
                return []

    def remove_empty(self, folder: str) -> None:
        with suppress(OSError):  # somebody has just put a file there, or removed the folder
            (self.root / folder).rmdir()

    def check_writable(self) -> None:
        key = f"{layout.TMP}/put/{secrets.token_hex(16)}"
        self.put_tmp(key, b"")
        self.delete(key)

    def keeps_versions(self) -> bool:
        return False

    def put_tmp(self, key: str, data: bytes) -> None:
        path = self.root / key
        with lake_errors(), _taken_if_gone():
            _make_folder(path.parent)
            # A published file shares its inode with the unfinished one: never write into it again.
            path.unlink(missing_ok=True)
            _write(path, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        # obstore would link the name before the content is on the disk.
        tmp_key = f"{layout.TMP}/put/{secrets.token_hex(16)}"
        try:
            self.put_tmp(tmp_key, data)
            self.make_durable([tmp_key])
            at("entry-link.before")
            taken = not self.publish(tmp_key, key)
            at("entry-link.after")
        finally:
            self.delete(tmp_key)
        self.make_durable([key])
        return not taken

    def publish(self, tmp_key: str, key: str) -> bool:
        path = self.root / key
        with lake_errors(), _taken_if_gone():
            _make_folder(path.parent)
            try:
                os.link(self.root / tmp_key, path)
            except FileExistsError:
                return False
            return True

    def make_durable(self, keys: list[str]) -> None:
        with lake_errors(), _taken_if_gone():
            for path in [self.root / key for key in keys]:
                flush(path)
            for folder in {(self.root / key).parent for key in keys}:
                flush(folder)

    def move_away(self, folder: str, to: str) -> None:
        with lake_errors():
            _make_folder((self.root / to).parent)
            try:
                (self.root / folder).rename(self.root / to)
            except FileNotFoundError:
                return  # its owner has just finished with it

    def remove_folder(self, folder: str) -> None:
        with lake_errors():
            shutil.rmtree(self.root / folder, ignore_errors=False, onerror=_unless_gone)


@contextmanager
def _taken_if_gone() -> Iterator[None]:
    """Another writer renames our files away when it takes over, at any instant."""
    try:
        yield
    except FileNotFoundError:
        raise taken_over() from None


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _make_folder(path: Path) -> None:
    """Makes a folder and its parents, each durable in the folder above it."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    flush(path.parent)


def _make_private(root: Path) -> None:
    """Makes the lake's folder; one that is there and empty is closed to others."""
    _make_folder(root)
    if root.stat().st_uid == os.geteuid() and not any(root.iterdir()):
        root.chmod(0o700)


def _check_private(root: Path) -> None:
    """What lies in a folder that is ours alone nobody else can reach, whatever its own mode."""
    about = root.stat()
    if about.st_uid != os.geteuid():
        raise LakeUnusable(
            "the lake belongs to another user", code="lake-owner", hint="run this as its owner"
        )
    if about.st_mode & 0o077:
        raise LakeUnusable(
            "others on this machine may enter the lake",
            code="lake-mode",
            hint=f"look who has read it, then: chmod 700 {root}",
        )


def _unless_gone(_call: object, _path: str, info: tuple[type, BaseException, object]) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]
