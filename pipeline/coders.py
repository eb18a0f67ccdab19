"""How the pipeline's elements travel between the processes of a runner: never by pickle.

Apart from `slices.py`, so that reading a lake does not import Beam.
"""

import json
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from apache_beam.coders import Coder, registry
from pydantic import TypeAdapter

from pipeline.lake.commits import WrittenSlice
from pipeline.lake.entries import Commit, decode, encode
from pipeline.slices import MaskedSlice, Part, SliceHeader, StateChange

_HEADER = TypeAdapter(SliceHeader)


class MaskedSliceCoder(Coder):  # type: ignore[misc]
    """JSON header and Arrow streams, so that a runner can carry slices between processes."""

    def encode(self, value: MaskedSlice) -> bytes:
        parts = [_part_to_ipc(part) for part in value.parts]
        head = {
            "header": asdict(value.header),
            "parts": [
                [part.table, part.retention_class, part.expires, len(data)]
                for part, data in zip(value.parts, parts, strict=True)
            ],
            "memories": len(value.memories),
            "previous_state": value.state.previous,
        }
        text = json.dumps(head, separators=(",", ":"), sort_keys=True).encode()
        blobs = [*parts, value.memories, value.state.document]
        return b"".join([len(text).to_bytes(8, "big"), text, *blobs])

    def decode(self, encoded: bytes) -> MaskedSlice:
        size = int.from_bytes(encoded[:8], "big")
        head = json.loads(encoded[8 : 8 + size])
        at, parts = 8 + size, []
        for table, retention_class, expires, length in head["parts"]:
            rows = pa.ipc.open_stream(encoded[at : at + length]).read_all()
            parts.append(Part(table, retention_class, expires, rows))
            at += length
        memories, document = encoded[at : at + head["memories"]], encoded[at + head["memories"] :]
        state = StateChange(document, head["previous_state"])
        return MaskedSlice(_header(head["header"]), tuple(parts), memories, state)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return MaskedSlice


def _part_to_ipc(part: Part) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.rows.schema) as stream:
        stream.write_table(part.rows)
    return sink.getvalue().to_pybytes()


def _header(fields: dict[str, Any]) -> SliceHeader:
    return _HEADER.validate_python(fields)


class WrittenSliceCoder(Coder):  # type: ignore[misc]
    """One canonical JSON document."""

    def encode(self, value: WrittenSlice) -> bytes:
        return value.to_json()

    def decode(self, encoded: bytes) -> WrittenSlice:
        return WrittenSlice.from_json(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return WrittenSlice


class CommitCoder(Coder):  # type: ignore[misc]
    """A commit as it stands in the log."""

    def encode(self, value: Commit) -> bytes:
        return encode(value)

    def decode(self, encoded: bytes) -> Commit:
        return decode(Commit, encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return Commit


registry.register_coder(MaskedSlice, MaskedSliceCoder)
registry.register_coder(WrittenSlice, WrittenSliceCoder)
registry.register_coder(Commit, CommitCoder)
