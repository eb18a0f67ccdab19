"""Errors of the wire contract; no message ever holds payload.

SchemasError
├── DecodeError          a Kafka value that is no event; `code` is one of `DECODE_CODES`
├── EncodeError          an event that no reader would take; `code` is one of `DECODE_CODES`
└── IncompatibleSchema   a schema change that old readers or old data would not survive
"""

from collections.abc import Mapping, Sequence
from typing import Final

DECODE_CODES: Final[Mapping[str, str]] = {
    "empty-value": "the value is null or has no bytes",
    "too-large": "the value is longer than the reader takes",
    "unknown-encoding": "the first bytes are neither Avro nor Confluent framing nor `{`",
    "truncated-avro": "the value ends before the record does",
    "malformed-avro": "the bytes do not follow the schema they name",
    "trailing-bytes": "bytes are left after the record",
    "unknown-fingerprint": "no schema of the history has this fingerprint",
    "no-registry": "the message names a schema of a registry, and no registry is configured",
    "unknown-schema-id": "the schema registry has no schema of this id",
    "incompatible-schema": "the schema of this id is no schema of a run event",
    "invalid-utf8": "a text is not UTF-8",
    "invalid-json": "the value starts like a JSON object and is none",
    "duplicate-keys": "an object of the envelope repeats a key",
    "lone-surrogate": "a text holds half of a surrogate pair",
    "too-deep": "the JSON is nested too deeply to be read",
    "not-an-event": "a required field is missing, or a field has another type",
    "out-of-range": "a number or a time is outside what the tables hold",
    "body-not-json": "the body is not JSON text",
}


class SchemasError(Exception):
    """Root of every error raised by `schemas`."""


class DecodeError(SchemasError):
    """A value that cannot be read as an event; `code` says why, nothing of the value is kept."""

    def __init__(self, code: str) -> None:
        assert code in DECODE_CODES, code
        self.code = code
        super().__init__(f"not a run event: {DECODE_CODES[code]} ({code})")


class EncodeError(SchemasError):
    """An event that `decode` would refuse, refused where it is made."""

    def __init__(self, code: str) -> None:
        assert code in DECODE_CODES, code
        self.code = code
        super().__init__(f"this event cannot be sent: {DECODE_CODES[code]} ({code})")


class IncompatibleSchema(SchemasError):
    """A breaking schema change; `changes` names each place and what breaks there."""

    def __init__(self, changes: Sequence[str]) -> None:
        self.changes = tuple(changes)
        super().__init__("; ".join(self.changes))
