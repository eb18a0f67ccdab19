"""Sealed files: content columns encrypted inside Parquet, under keys that lie outside the lake.

Parquet modular encryption with a plain footer, so that any reader reads the other columns.  Every
file has data keys of its own; they are kept in a key store by lake, table, class and bucket, and
the file holds only the name under which.  Destroying a bucket's keys makes every copy of its files
unreadable, wherever it is.
"""

import json
import os
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import platformdirs

from pipeline.errors import LakeError, UsageError

if TYPE_CHECKING:
    from pyarrow.parquet.encryption import CryptoFactory

SEALED: Final = b"sealed"
"""Key of a schema's metadata: there, the content columns are sealed; its value names the keys."""

CONTENT: Final = frozenset({"body", "redactions"})
"""The columns that are sealed: what an event says, and what tells of it."""

ENVIRONMENT: Final = "REDACTORY_BUCKET_KEYS"
"""Names the folder of the key store, instead of the one in the user's configuration directory."""

_MASTER: Final = "bucket"
_DATA_KEY_BITS: Final = 256


class KeyStore(Protocol):
    """Keeps data keys by the name of their file, in a folder for each bucket.

    Every method raises `LakeError` if the store fails.
    """

    def put(self, folder: str, name: str, keys: Mapping[str, bytes]) -> None:
        """Keeps the keys of one file, durable on return."""

    def get(self, folder: str, name: str) -> Mapping[str, bytes]:
        """The keys of one file; `LakeError` ("key-gone") if they are not here, or no more."""

    def destroy(self, folder: str, keep: Collection[str] = ()) -> int:
        """Destroys the keys of a bucket's files, but for those named; how many files had some."""


class DirectoryKeyStore:
    """Keys in files of a directory (0700, 0600); each is overwritten before it is removed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, folder: str, name: str, keys: Mapping[str, bytes]) -> None:
        path = self._root / folder / name
        text = json.dumps({ref: key.hex() for ref, key in keys.items()})
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            for above in path.relative_to(self._root).parents:
                _flush(self._root / above)
        except OSError as error:
            raise _failed(error) from error

    def get(self, folder: str, name: str) -> Mapping[str, bytes]:
        try:
            text = (self._root / folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise LakeError(
                "the keys of a sealed file are not in the key store",
                code="key-gone",
                hint=f"they were destroyed with their bucket, or {ENVIRONMENT} names another store",
            ) from None
        except OSError as error:
            raise _failed(error) from error
        return {ref: bytes.fromhex(key) for ref, key in json.loads(text).items()}

    def destroy(self, folder: str, keep: Collection[str] = ()) -> int:
        bucket = self._root / folder
        try:
            doomed = [path for path in bucket.glob("*") if path.name not in keep]
            for path in doomed:
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
                    file.flush()
                    os.fsync(file.fileno())
                path.unlink()
            if doomed:
                _flush(bucket)
        except OSError as error:
            raise _failed(error) from error
        return len(doomed)


def default_folder() -> Path:
    """The folder that the environment names, else one in the user's configuration directory."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else platformdirs.user_config_path("redactory") / "bucket-keys"


class Seal:
    """Seals one file under fresh keys, to be kept in `folder` of the key store."""

    def __init__(self, keys: KeyStore, folder: str) -> None:
        self._keys, self._folder, self._name = keys, folder, secrets.token_hex(16)
        self._made: dict[str, bytes] = {}

    @property
    def reference(self) -> str:
        """What the file, and the log, say about where its keys are."""
        return f"{self._folder}/{self._name}"

    def properties(self, leaves: Collection[str]) -> Any:
        """Encryption properties for a file whose leaf columns are `leaves`."""
        import pyarrow.parquet.encryption as pe

        configuration = pe.EncryptionConfiguration(
            footer_key=_MASTER,
            column_keys={_MASTER: [leaf for leaf in leaves if leaf.split(".")[0] in CONTENT]},
            plaintext_footer=True,
            double_wrapping=False,
            data_key_length_bits=_DATA_KEY_BITS,
        )
        return _factory(self._wrap, _refuse).file_encryption_properties(
            pe.KmsConnectionConfig(), configuration
        )

    def keep(self) -> None:
        """Keeps the keys that were made; to be called before the file is shown to anybody."""
        self._keys.put(self._folder, self._name, self._made)

    def _wrap(self, key: bytes) -> str:
        number = str(len(self._made))
        self._made[number] = key
        return f"{self.reference}/{number}"


def unsealing(keys: KeyStore) -> Any:
    """Decryption properties for any sealed file whose keys are in the store."""
    import pyarrow.parquet.encryption as pe

    def unwrap(name: str) -> bytes:
        reference, _, number = name.rpartition("/")
        return find_keys(keys, reference)[number]

    return _factory(_refuse, unwrap).file_decryption_properties(
        pe.KmsConnectionConfig(), pe.DecryptionConfiguration()
    )


def find_keys(keys: KeyStore, reference: str) -> Mapping[str, bytes]:
    """The keys of a file, by what it says of them; `LakeError` ("key-gone") if there are none."""
    folder, _, name = reference.rpartition("/")
    return keys.get(folder, name)


def has_keys(keys: KeyStore, reference: str) -> bool:
    """Whether the keys of a file are here."""
    try:
        find_keys(keys, reference)
    except LakeError as error:
        if error.code != "key-gone":
            raise
        return False
    return True


def check_outside(key_store: Path, lake: Path) -> None:
    """Raises `UsageError` if a key store lies in the lake, where its keys would be copied too."""
    if key_store.absolute().is_relative_to(lake.absolute()):
        raise UsageError(
            "the key store lies in the lake",
            code="keys-in-lake",
            hint=f"let {ENVIRONMENT} name a folder elsewhere",
        )


def _factory(wrap: Callable[[bytes], str], unwrap: Callable[[str], bytes]) -> "CryptoFactory":
    """A factory whose wrapped keys are mere names."""
    import pyarrow.parquet.encryption as pe

    class Names(pe.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
            return wrap(key_bytes)

        def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> Any:
            return unwrap(wrapped_key if isinstance(wrapped_key, str) else wrapped_key.decode())

    return pe.CryptoFactory(lambda configuration: Names())


def _refuse(_: Any) -> Any:
    raise LakeError("a key was asked for in vain", code="key-gone")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(error: OSError) -> LakeError:
    return LakeError(
        f"the key store failed ({os.strerror(error.errno or 0)})",
        code="key-store",
        hint=f"check the folder that {ENVIRONMENT} names",
    )
