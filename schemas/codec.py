"""Kafka values to events and back.

A value is told apart by its first bytes: `C3 01` is Avro single-object encoding (the default, needs
no registry), `00` is Confluent framing (a schema's id in a registry, then Avro or JSON), `{` a JSON
object with the field names of `run_event.avsc`, in which a field may be absent where that schema
has a default.  Confluent's clients may also name the schema in a header and leave the value bare.

Avro is read by the schema it was written with, so that nothing is dropped; what that schema does
not have takes the default of ours.

Fields that the schema does not list are kept in the body.  An object gains one last key,
`"_unknown_fields": {...}`, and is otherwise byte for byte what arrived; a body that is no object,
or that uses this key already, becomes `{"_body": <as it was>, "_unknown_fields": {...}}`.  A body
without unknown fields is never touched.
"""

import json
import struct
from collections.abc import Callable
from enum import Enum
from io import BytesIO
from typing import Any, Final
from uuid import UUID

import orjson
from fastavro import schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException, UnknownType

from schemas import avro
from schemas.bounds import is_bounded
from schemas.compat import unreadable
from schemas.errors import DecodeError, EncodeError
from schemas.events import RunEvent
from schemas.fields import event_of, fields_of

MAX_SIZE_BYTES: Final = 4 * 1024 * 1024

SCHEMA_HEADER: Final = "__value_schema_id"
"""The header in which Confluent's clients name the schema of a bare value."""

SchemaId = int | UUID
"""How a message names its schema in a registry."""


class Foreign(Enum):
    """What a schema of a registry is that is not Avro."""

    JSON = "JSON"
    OTHER = "OTHER"


# From an id to the schema it names; None: there is no such id.  Outages are raised, not returned.
Resolve = Callable[[SchemaId], avro.Schema | Foreign | None]

_SINGLE_OBJECT: Final = b"\xc3\x01"
_CONFLUENT: Final = b"\x00"
_GUID: Final = b"\x01"
_JSON_SPACE: Final = b" \t\n\r"


class Decoder:
    """Decodes values; `resolve` looks up ids of schemas (None: there is no registry to ask),
    `max_size_bytes` bounds a value."""

    def __init__(
        self, resolve: Resolve | None = None, *, max_size_bytes: int = MAX_SIZE_BYTES
    ) -> None:
        self._resolve = resolve
        self._resolved: dict[SchemaId, Any] = {}
        self._max_size_bytes = max_size_bytes

    def decode(self, value: bytes | None, schema_header: bytes | None = None) -> RunEvent:
        """The event in a Kafka value; `DecodeError` with a code of `DECODE_CODES` if there is none.

        `schema_header` is what `SCHEMA_HEADER` holds, if the message has it; without a registry it
        says nothing.  Whatever `resolve` raises passes through: an outage of the registry is no
        fault of the value.
        """
        if not value:
            raise DecodeError("empty-value")
        if len(value) > self._max_size_bytes:
            raise DecodeError("too-large")
        if schema_header is not None and self._resolve is not None:
            return event_of(self._read_framed(value, 0, _id_in(schema_header)))
        if value.startswith(_SINGLE_OBJECT):
            return event_of(_read_avro(value, 10, _schema_of(value)))
        if value.startswith(_CONFLUENT):
            if len(value) < 5:
                raise DecodeError("truncated-avro")
            return event_of(self._read_framed(value, 5, int.from_bytes(value[1:5], "big")))
        if value.lstrip(_JSON_SPACE).startswith(b"{"):
            return event_of(_read_json(value))
        raise DecodeError("unknown-encoding" if schema_header is None else "no-registry")

    def _read_framed(self, value: bytes, start: int, schema_id: SchemaId) -> dict[str, Any]:
        if schema_id not in self._resolved:
            if self._resolve is None:
                raise DecodeError("no-registry")
            schema = self._resolve(schema_id)
            if schema is None:
                raise DecodeError("unknown-schema-id")
            self._resolved[schema_id] = schema if schema is Foreign.JSON else _usable(schema)
        known = self._resolved[schema_id]
        return (
            _read_json(value[start:]) if known is Foreign.JSON else _read_avro(value, start, known)
        )


_MALFORMED: Final = (LookupError, TypeError, ValueError, AttributeError)

_DEFAULT: Final = Decoder()
_SCHEMA: Final = avro.readable(avro.current())
_HEADER: Final = _SINGLE_OBJECT + avro.fingerprint(avro.current())


def decode(value: bytes | None) -> RunEvent:
    """`Decoder.decode` without a schema registry."""
    return _DEFAULT.decode(value)


def encode(event: RunEvent, schema_id: int | None = None) -> bytes:
    """Avro under the current schema: single-object encoding, or Confluent framing with the id that
    the schema has in a registry.

    Raises `EncodeError` for an event that `decode` would refuse.
    """
    fields = _checked(event)
    _utf8(fields)
    fields["kind"] = fields["kind"].replace(".", "_")
    out = BytesIO()
    out.write(_HEADER if schema_id is None else _CONFLUENT + schema_id.to_bytes(4, "big"))
    schemaless_writer(out, _SCHEMA, fields)
    return _bounded(out.getvalue())


def encode_json(event: RunEvent) -> bytes:
    """One JSON object without a line break; fields at their default are left out.

    Raises `EncodeError` for an event that `decode` would refuse.
    """
    fields = _checked(event)
    empty = {
        "attempt": 1,
        "producer": {"name": "", "version": ""},
        "subjects": [],
        "redactions": [],
    }
    kept = {key: value for key, value in fields.items() if value not in (None, empty.get(key))}
    return _bounded(_utf8(kept))


def _checked(event: RunEvent) -> dict[str, Any]:
    fields = fields_of(event)
    try:
        event_of(fields)
    except DecodeError as error:
        raise EncodeError(error.code) from None
    return fields


def _utf8(fields: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:
        raise EncodeError("lone-surrogate") from None


def _bounded(value: bytes) -> bytes:
    if len(value) > MAX_SIZE_BYTES:
        raise EncodeError("too-large")
    return value


def _schema_of(value: bytes) -> Any:
    if len(value) < 10:
        raise DecodeError("truncated-avro")
    schema = avro.by_fingerprint().get(value[2:10])
    if schema is None:
        raise DecodeError("unknown-fingerprint")
    return schema


def _id_in(header: bytes) -> SchemaId:
    if header[:1] == _CONFLUENT and len(header) == 5:
        return int.from_bytes(header[1:], "big")
    if header[:1] == _GUID and len(header) == 17:
        return UUID(bytes=header[1:])
    raise DecodeError("unknown-schema-id")


def _usable(schema: avro.Schema | Foreign) -> Any:
    """The schema, ready to read with; refuses one that is no run event's, or that is not safe."""
    try:
        if not isinstance(schema, Foreign) and not unreadable(schema, avro.current()):
            parsed = avro.readable(schema)
            if is_bounded(parsed):
                return parsed
    except (SchemaParseException, UnknownType, RecursionError, *_MALFORMED):
        pass  # the registry holds what is no Avro schema
    raise DecodeError("incompatible-schema")


def _read_avro(value: bytes, start: int, schema: Any) -> dict[str, Any]:
    stream = BytesIO(value)
    stream.seek(start)
    try:
        fields = schemaless_reader(stream, schema, None)
    except EOFError:
        raise DecodeError("truncated-avro") from None
    except UnicodeDecodeError:
        raise DecodeError("invalid-utf8") from None
    except (ValueError, IndexError, TypeError, OverflowError, MemoryError, struct.error):
        raise DecodeError("malformed-avro") from None
    if stream.tell() != len(value):
        raise DecodeError("trailing-bytes")
    assert isinstance(fields, dict)
    return fields


def _read_json(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise DecodeError("invalid-utf8") from None
    try:
        fields = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise DecodeError("too-deep") from None
    except ValueError:
        raise DecodeError("invalid-json") from None
    if not isinstance(fields, dict):
        raise DecodeError("not-an-event")
    if "\\ud" in text.lower() and not _is_utf8(fields):
        raise DecodeError("lone-surrogate")
    return fields


def _is_utf8(fields: dict[str, Any]) -> bool:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs):
        raise DecodeError("duplicate-keys")
    return items
