"""Reading the open-run state back: from the last commit's document to the base it stands on."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.store import Store
from pipeline.state.document import Document, decode_document

_HINT = "restore the lake's _state folder: open runs cannot be assembled without it"


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its digest and size."""

    document: Document
    digest: str
    size_bytes: int


def read_chain(
    store: Store, topic: str, partition: int, digest: str | None, *, memories_only: bool = False
) -> tuple[StoredDocument, ...]:
    """The documents that lead to the state `digest`, its base first; () for None.

    Raises LogError if one is missing or not what its name says.
    """
    if digest is None:
        return ()
    backwards = _backwards(store, topic, partition, digest, memories_only=memories_only)
    return tuple(backwards)[::-1]


def _backwards(
    store: Store, topic: str, partition: int, digest: str, *, memories_only: bool
) -> Iterator[StoredDocument]:
    folder = layout.state_folder(topic, partition)
    keys = {
        parsed[1]: item.key
        for item in store.walk(folder)
        if (parsed := layout.parse_state_key(item.key))
    }
    while digest:
        data = store.get_or_none(keys[digest]) if digest in keys else None
        if data is None:
            raise LogError(
                f"a document of the open-run state is missing in {folder}",
                code="state-missing",
                hint=_HINT,
            )
        if hashlib.sha256(data).hexdigest() != digest:
            raise LogError(f"{keys[digest]} was changed", code="state-damaged", hint=_HINT)
        document = decode_document(data, memories_only=memories_only)
        yield StoredDocument(document, digest, len(data))
        digest = document.previous
