"""The contracts: the wire event and the tables.  Imports nothing of ours."""

from schemas.codec import MAX_SIZE_BYTES, Decoder, Resolve, decode, encode, encode_json
from schemas.errors import (
    DECODE_CODES,
    DecodeError,
    EncodeError,
    IncompatibleSchema,
    SchemasError,
)
from schemas.events import KINDS, OTHER, DeclaredRedaction, Producer, RunEvent

__all__ = [
    "DECODE_CODES",
    "KINDS",
    "MAX_SIZE_BYTES",
    "OTHER",
    "DeclaredRedaction",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "IncompatibleSchema",
    "Producer",
    "Resolve",
    "RunEvent",
    "SchemasError",
    "decode",
    "encode",
    "encode_json",
]
