"""A key store whose documents are wrapped by a key management service.

Every bucket has a key of its own in the service, tagged with the lake and the class, so that the
service's own rules say who may unwrap what.  The wrapped documents lie in the key store's folder
and never in the lake: destroying a bucket's keys removes them and, once the bucket is closed, ends
its key in the service.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

from pipeline.errors import LakeError
from pipeline.lake.keystore import KeyFolder, denied, gone, keys_as_text, keys_of_text

_MASTERS: Final = "masters"
"""The folder beside a bucket's documents with an empty file named after each key in the service."""

_ENDING_DAYS: Final = 7
"""The shortest time after which the service forgets a key; nobody can use it from the start."""


class Kms(Protocol):
    """What is asked of a key management service; every method raises `LakeError`."""

    def create(self, tags: Mapping[str, str]) -> str:
        """Makes a key and gives its id."""

    def wrap(self, key: str, data: bytes, about: Mapping[str, str]) -> bytes:
        """Encrypts up to 4 KB; `about` must be said again to decrypt it."""

    def unwrap(self, key: str, data: bytes, about: Mapping[str, str]) -> bytes:
        """Decrypts; "key-gone" if the key was destroyed, "key-denied" if we may not use it."""

    def destroy(self, key: str) -> None:
        """Ends a key: nothing is decrypted with it from now on; one that has ended is no error."""


class WrappingKeyStore:
    """Keys in files of a directory, each file's wrapped under the key of its bucket."""

    def __init__(self, documents: KeyFolder, service: Kms) -> None:
        self._documents, self._service = documents, service

    def put(self, folder: str, name: str, keys: Mapping[str, bytes]) -> None:
        master = self._master(folder)
        wrapped = self._service.wrap(master, keys_as_text(keys), _about(folder, name))
        self._documents.write(folder, name, master.encode() + b"\n" + wrapped)

    def get(self, folder: str, name: str) -> Mapping[str, bytes]:
        document = self._documents.read(folder, name)
        if document is None:
            raise gone()
        master, _, wrapped = document.partition(b"\n")
        return keys_of_text(self._service.unwrap(master.decode(), wrapped, _about(folder, name)))

    def names(self, folder: str) -> frozenset[str]:
        return self._documents.names(folder)

    def destroy(self, folder: str, names: Collection[str], *, is_closing: bool = False) -> None:
        self._documents.erase(folder, names)
        # While files may come, one that is being written may have been wrapped a moment ago.
        if is_closing and not self.names(folder):
            masters = self._documents.names(f"{folder}/{_MASTERS}")
            for master in masters:
                self._service.destroy(master)
            self._documents.erase(f"{folder}/{_MASTERS}", masters)

    def _master(self, folder: str) -> str:
        """The bucket's key; two that were made at once are both kept, and end together."""
        masters = self._documents.names(f"{folder}/{_MASTERS}")
        if masters:
            return min(masters)
        lake, name, _ = folder.split("/", 2)
        master = self._service.create({"redactory-lake": lake, "redactory-class": name})
        self._documents.write(f"{folder}/{_MASTERS}", master, b"")
        return master


class AwsKms:
    """AWS KMS, or what speaks like it; endpoint, region and credentials come from the usual
    `AWS_…` environment."""

    def create(self, tags: Mapping[str, str]) -> str:
        listed = [{"TagKey": name, "TagValue": value} for name, value in tags.items()]
        made = self._call("create_key", Description="Redactory bucket key", Tags=listed)
        return str(made["KeyMetadata"]["KeyId"])

    def wrap(self, key: str, data: bytes, about: Mapping[str, str]) -> bytes:
        wrapped = self._call("encrypt", KeyId=key, Plaintext=data, EncryptionContext=about)
        return bytes(wrapped["CiphertextBlob"])

    def unwrap(self, key: str, data: bytes, about: Mapping[str, str]) -> bytes:
        found = self._call("decrypt", KeyId=key, CiphertextBlob=data, EncryptionContext=about)
        return bytes(found["Plaintext"])

    def destroy(self, key: str) -> None:
        try:
            self._call("schedule_key_deletion", KeyId=key, PendingWindowInDays=_ENDING_DAYS)
        except LakeError as error:
            if error.code != "key-gone":
                raise

    def _call(self, name: str, **words: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, name)(**words)
        except ClientError as error:
            raise _explain(str(error.response.get("Error", {}).get("Code"))) from None
        except BotoCoreError as error:
            raise _explain(type(error).__name__) from None

    @cached_property
    def _client(self) -> Any:
        import boto3

        return boto3.client("kms")


def _explain(code: str) -> LakeError:
    if code in ("KMSInvalidStateException", "DisabledException", "NotFoundException"):
        return gone()
    if code == "AccessDeniedException":
        return denied()
    return LakeError(
        f"the key management service failed ({code})",
        code="kms",
        hint="check its address, region and credentials in the environment",
    )


def _about(folder: str, name: str) -> dict[str, str]:
    return {"file": f"{folder}/{name}"}
