"""Sealed files: content columns encrypted inside Parquet, under keys that lie outside the lake.

Parquet modular encryption with a plain footer, so that any reader reads the other columns.  Every
file has data keys of its own; they are kept in a key store by lake, table, class and bucket, and
the file holds only the name under which.  Destroying a bucket's keys makes every copy of its files
unreadable, wherever it is.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import LakeError
from pipeline.lake.keystore import KeyStore

if TYPE_CHECKING:
    from pyarrow.parquet.encryption import CryptoFactory

SEALED: Final = b"sealed"
"""Key of a schema's metadata: there, the content columns are sealed; its value names the keys."""

CONTENT: Final = frozenset({"body", "redactions"})
"""The columns that are sealed: what an event says, and what tells of it."""

_MASTER: Final = "bucket"
_DATA_KEY_BITS: Final = 256


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


def unsealing(keys: KeyStore, reference: str) -> Any:
    """Decryption properties for the file that says `reference` of its keys, asked for once.

    Raises `LakeError` ("key-gone", "key-denied") if they cannot be had.
    """
    import pyarrow.parquet.encryption as pe

    held = find_keys(keys, reference)

    def unwrap(name: str) -> bytes:
        return held[name.rpartition("/")[2]]

    return _factory(_refuse, unwrap).file_decryption_properties(
        pe.KmsConnectionConfig(), pe.DecryptionConfiguration()
    )


def find_keys(keys: KeyStore, reference: str) -> Mapping[str, bytes]:
    """The keys of a file, by what it says of them; `LakeError` ("key-gone") if there are none."""
    folder, _, name = reference.rpartition("/")
    return keys.get(folder, name)


def has_keys(keys: KeyStore, reference: str) -> bool:
    """Whether the keys of a file are here, and we may have them."""
    try:
        find_keys(keys, reference)
    except LakeError as error:
        if error.code not in ("key-gone", "key-denied"):
            raise
        return False
    return True


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
