"""Where the data keys of sealed files are kept: outside the lake, a folder for each bucket.

    <lake>/<class>/<table>/<expires>/<file>      one document a file: its keys, or its wrapped keys

A folder for each class, so that who may read it may be said class by class.  With a key management
service the documents are wrapped under a key of the bucket's own (`kms.py`).
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

import platformdirs

from pipeline.errors import LakeError, UsageError
from pipeline.lake.disk import flush

ENVIRONMENT: Final = "REDACTORY_BUCKET_KEYS"
"""Names the folder of the key store, instead of the one in the user's configuration directory."""

SERVICE: Final = "REDACTORY_BUCKET_KMS"
"""Names the service that wraps the keys, `aws`; without it they are only guarded by the folder."""


class KeyStore(Protocol):
    """Keeps data keys by the name of their file, in a folder for each bucket.

    Every method raises `LakeError` if the store fails.
    """

    def put(self, folder: str, name: str, keys: Mapping[str, bytes]) -> None:
        """Keeps the keys of one file, durable on return."""

    def get(self, folder: str, name: str) -> Mapping[str, bytes]:
        """The keys of one file; `LakeError` with code "key-gone" if they are not here, or no more,
        "key-denied" if we may not have them."""

    def names(self, folder: str) -> frozenset[str]:
        """The files of a bucket whose keys are kept."""

    def destroy(self, folder: str, names: Collection[str], *, is_closing: bool = False) -> None:
        """Destroys the keys of files; those that are gone are no error.

        `is_closing`: no file comes to the bucket any more, so what stands for the whole bucket
        goes with its last file.
        """


class KeyFolder:
    """Documents in files of a directory (0700, 0600); each is overwritten before it is removed.

    Where the operator lets a group into the folder of a class, what is made below lets it in too.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Writes a document, durable on return."""
        path = self._root / folder / name
        try:
            self._check_owner()
            self._make(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o640 if _is_shared(path.parent) else 0o600)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            flush(path.parent)
        except OSError as error:
            raise _failed(error) from error

    def read(self, folder: str, name: str) -> bytes | None:
        """A document; None if there is none."""
        try:
            return (self._root / folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except PermissionError:
            raise denied() from None
        except OSError as error:
            raise _failed(error) from error

    def names(self, folder: str) -> frozenset[str]:
        """The documents of a folder."""
        try:
            with os.scandir(self._root / folder) as found:
                return frozenset(item.name for item in found if item.is_file())
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise _failed(error) from error

    def erase(self, folder: str, names: Collection[str]) -> None:
        """Overwrites and removes documents."""
        try:
            for path in (self._root / folder / name for name in names):
                if path.is_file():
                    with path.open("r+b") as file:
                        file.write(bytes(path.stat().st_size))
                        file.flush()
                        os.fsync(file.fileno())
                    path.unlink()
            if (self._root / folder).is_dir():
                flush(self._root / folder)
        except OSError as error:
            raise _failed(error) from error

    def _check_owner(self) -> None:
        if not self._root.exists():
            return
        about = self._root.stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o007:
            raise LakeError(
                "the key store belongs to another user, or anybody may enter it",
                code="key-store-owner",
                hint=f"chmod o= the folder, or let {ENVIRONMENT} name one of yours",
            )

    def _make(self, folder: Path) -> None:
        """Makes a folder and its parents, each durable in the folder above it."""
        if folder.is_dir():
            return
        self._make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_relative_to(self._root) and _is_shared(folder.parent):
            folder.chmod(0o750)
        flush(folder.parent)


class DirectoryKeyStore:
    """Keys in files of a directory, as they are."""

    def __init__(self, root: Path) -> None:
        self._documents = KeyFolder(root)

    def put(self, folder: str, name: str, keys: Mapping[str, bytes]) -> None:
        self._documents.write(folder, name, keys_as_text(keys))

    def get(self, folder: str, name: str) -> Mapping[str, bytes]:
        text = self._documents.read(folder, name)
        if text is None:
            raise gone()
        return keys_of_text(text)

    def names(self, folder: str) -> frozenset[str]:
        return self._documents.names(folder)

    def destroy(self, folder: str, names: Collection[str], *, is_closing: bool = False) -> None:
        self._documents.erase(folder, names)


def default_folder() -> Path:
    """The folder that the environment names, else one in the user's configuration directory."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else platformdirs.user_config_path("redactory") / "bucket-keys"


def open_key_store() -> KeyStore:
    """The key store that the environment names."""
    service = os.environ.get(SERVICE)
    if not service:
        return DirectoryKeyStore(default_folder())
    if service != "aws":
        raise UsageError(
            f"{SERVICE} names no service that is known here",
            code="kms",
            hint="aws is; leave it out to keep the keys in the folder alone",
        )
    from pipeline.lake.kms import AwsKms, WrappingKeyStore

    return WrappingKeyStore(KeyFolder(default_folder()), AwsKms())


def check_outside(key_store: Path, lake: Path) -> None:
    """Raises `UsageError` if a key store lies in the lake, where its keys would be copied too."""
    if key_store.absolute().is_relative_to(lake.absolute()):
        raise UsageError(
            "the key store lies in the lake",
            code="keys-in-lake",
            hint=f"let {ENVIRONMENT} name a folder elsewhere",
        )


def keys_as_text(keys: Mapping[str, bytes]) -> bytes:
    """Keys as a document."""
    return json.dumps({name: key.hex() for name, key in keys.items()}).encode()


def keys_of_text(text: bytes) -> Mapping[str, bytes]:
    """The keys of a document."""
    return {name: bytes.fromhex(key) for name, key in json.loads(text).items()}


def gone() -> LakeError:
    """The error of whoever asks for keys that are not there."""
    return LakeError(
        "the keys of a sealed file are not in the key store",
        code="key-gone",
        hint=f"they were destroyed with their bucket, or {ENVIRONMENT} names another store",
    )


def denied() -> LakeError:
    """The error of whoever asks for keys that he may not have."""
    return LakeError(
        "the key store does not let you have the keys of a sealed class",
        code="key-denied",
        hint="ask the owner of the class for access",
    )


def _is_shared(folder: Path) -> bool:
    """Whether the folder's group may read it."""
    return bool(folder.stat().st_mode & 0o040)


def _failed(error: OSError) -> LakeError:
    return LakeError(
        f"the key store failed ({os.strerror(error.errno or 0)})",
        code="key-store",
        hint=f"check the folder that {ENVIRONMENT} names",
    )
