"""Schemas of a registry that a topic's messages name, kept in the lake.

The text is kept under its digest before any message is decoded by it, and the topic's log says
which id names it.  An id names one schema for ever: what was once asked is never asked again, by
any worker on any machine, so that a slice is redone, and a lake verified, without the registry.
"""

import json
from typing import Any, Final

from pipeline.errors import LogError
from pipeline.lake.documents import load_schema_document, store_schema
from pipeline.lake.entries import digest
from pipeline.lake.layout import schema_folder, schema_key
from pipeline.lake.store import Store
from pipeline.registry.client import Registry
from schemas import DecodeError, Decoder, Foreign, SchemaId, avro

MAX_UNKNOWN: Final = 1_000
"""Ids without a schema that are remembered, so that a flood of one does not ask for each."""


def topic_decoder(store: Store, topic: str, registry: Registry | None = None) -> Decoder:
    """Decodes a topic's messages by the schemas that the lake keeps, then by the registry's.

    Without a registry, and where nothing is kept, messages are told by their first bytes alone.
    """
    if registry is None and next(store.walk(schema_folder(topic)), None) is None:
        return Decoder()
    return Decoder(_KeptSchemas(store, topic, registry).resolve)


class _KeptSchemas:
    def __init__(self, store: Store, topic: str, registry: Registry | None) -> None:
        self._store, self._topic, self._registry = store, topic, registry
        self._unknown: set[SchemaId] = set()

    def resolve(self, schema_id: SchemaId) -> avro.Schema | Foreign | None:
        if schema_id in self._unknown:
            return None
        key = schema_key(self._topic, str(schema_id))
        kept = self._store.get_or_none(key)
        if kept is None:
            if (found := self._ask(schema_id)) is None:
                return None
            document = _encode(found)
            store_schema(self._store, digest(document), document)
            self._store.put_if_absent(key, digest(document).encode())
            kept = self._store.get(key)  # another worker's, if it was faster
        document = load_schema_document(self._store, kept.decode())
        if digest(document).encode() != kept:
            raise LogError(
                "a schema that the lake keeps has another digest than its name says",
                code="digest-conflict",
                hint="the log was changed",
            )
        return _decode(document)

    def _ask(self, schema_id: SchemaId) -> avro.Schema | Foreign | None:
        if self._registry is None:
            raise DecodeError("no-registry")
        found = self._registry.schema(schema_id)
        if found is None:
            if len(self._unknown) >= MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown.add(schema_id)
        return found


def _encode(schema: avro.Schema | Foreign) -> bytes:
    fields: dict[str, Any] = {"kind": "AVRO", "schema": schema}
    if isinstance(schema, Foreign):
        fields = {"kind": schema.value}
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _decode(document: bytes) -> avro.Schema | Foreign:
    fields = json.loads(document)
    schema: avro.Schema | Foreign = fields.get("schema") or Foreign(fields["kind"])
    return schema
