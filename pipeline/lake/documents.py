"""The texts of rulesets, policies and schemas, kept in the log under their digests."""

from typing import Literal

from pipeline.errors import LogError
from pipeline.lake.layout import RULESETS, document_key
from pipeline.lake.store import Store

_Kind = Literal["rulesets", "policies", "schemas"]


def store_ruleset(store: Store, digest: str, document: bytes) -> None:
    """Keeps a ruleset's canonical text, before any intent names its digest; again is success."""
    _store(store, "rulesets", digest, document)


def load_ruleset_document(store: Store, digest: str) -> bytes:
    """The canonical text of a ruleset; `LakeError` ("missing") if it is not kept."""
    return store.get(document_key("rulesets", digest))


def stored_rulesets(store: Store) -> list[str]:
    """The digests of the rulesets whose texts are kept, sorted."""
    return sorted(item.key.rpartition("/")[2] for item in store.walk(RULESETS))


def store_policy(store: Store, digest: str, document: bytes) -> None:
    """Keeps a retention policy's text, before any intent names its digest; again is success."""
    _store(store, "policies", digest, document)


def load_policy_document(store: Store, digest: str) -> bytes:
    """The text of a retention policy; `LakeError` ("missing") if it is not kept."""
    return store.get(document_key("policies", digest))


def store_schema(store: Store, digest: str, document: bytes) -> None:
    """Keeps a schema, before anything is decoded by it; again is success."""
    _store(store, "schemas", digest, document)


def load_schema_document(store: Store, digest: str) -> bytes:
    """A schema that is kept; `LakeError` ("missing") if it is not."""
    return store.get(document_key("schemas", digest))


def _store(store: Store, kind: _Kind, digest: str, document: bytes) -> None:
    key = document_key(kind, digest)
    if not store.put_if_absent(key, document) and store.get(key) != document:
        raise LogError(
            f"two different texts in {kind} have one digest",
            code="digest-conflict",
            hint="the log was changed, or two versions of redactory disagree",
        )
