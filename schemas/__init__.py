"""The contracts: the wire event and the tables.  Imports nothing of ours."""

from schemas.codec import (
    MAX_SIZE_BYTES,
    SCHEMA_HEADER,
    Decoder,
    Foreign,
    Resolve,
    SchemaId,
    decode,
    encode,
    encode_json,
)
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
    "SCHEMA_HEADER",
    "DeclaredRedaction",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "Foreign",
    "IncompatibleSchema",
    "Producer",
    "Resolve",
    "RunEvent",
    "SchemaId",
    "SchemasError",
    "decode",
    "encode",
    "encode_json",
]
