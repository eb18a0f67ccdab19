"""The tables of the lake: columns, types, and what each column means.

`EVENTS` and `DEAD_LETTERS` are the declared schemas of every file; hive columns are not in them.
Each field's description is its metadata under `description`, from which the data dictionary is
made.  Times are UTC microseconds.
"""

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")


def _column(
    name: str, kind: pa.DataType, description: str, *, required: bool = False
) -> "pa.Field[pa.DataType]":
    return pa.field(name, kind, nullable=not required, metadata={"description": description})


def _list(items: pa.DataType) -> pa.DataType:
    # "element" is the name Parquet prescribes: another one does not survive a round trip.
    return pa.list_(pa.field("element", items))


_COORDINATES: Final = (
    _column("kafka_topic", pa.string(), "Topic the record came from.", required=True),
    _column("kafka_partition", pa.int32(), "Partition of the topic.", required=True),
    _column("kafka_offset", pa.int64(), "Offset within the partition.", required=True),
)

_HANDLING: Final = (
    _column("ingested_at", _TIME, "The slice's one clock reading.", required=True),
    _column("deadline", _TIME, "No copy of the row outlives this time.", required=True),
    _column("requested_class", pa.string(), "Retention class the producer asked for."),
)

REDACTION: Final = pa.struct(
    [
        _column("path", pa.string(), "JSON pointer into the stored body, or a column name."),
        _column("rule", pa.string(), "Id of the rule that fired."),
        _column("label", pa.string(), "Label shown in the mask."),
        _column("action", pa.string(), "mask, hash, length, drop or keep."),
        _column("span_start", pa.int32(), "First code point of the mask in the stored text."),
        _column("span_end", pa.int32(), "One past its last code point; null: the whole value."),
        _column("length", pa.int32(), "Length of the original, where the action is length."),
        _column("layers", _list(pa.string()), "Decodings passed through, outermost first."),
        _column("by", pa.string(), "emitter or pipeline."),
    ]
)

EVENTS: Final = pa.schema(
    [
        _column("event_id", pa.string(), "Identity of the event.", required=True),
        _column("run_id", pa.string(), "The run it belongs to.", required=True),
        _column("parent_run_id", pa.string(), "The run that started this one."),
        _column("retry_of", pa.string(), "What this attempt tries again."),
        _column("attempt", pa.int32(), "Delivery attempt within the run, from 1.", required=True),
        _column("sequence", pa.int64(), "From 0 within (run_id, attempt).", required=True),
        _column("occurred_at", _TIME, "When the step was observed.", required=True),
        _column("captured_at", _TIME, "When an importer took it in; retention counts from here."),
        _column("kind", pa.string(), "What happened; other: see kind_name.", required=True),
        _column("kind_name", pa.string(), "Name of a kind the reader did not know."),
        _column("name", pa.string(), "Tool, model or effect name."),
        _column("call_id", pa.string(), "Pairs a request with its result."),
        _column("idempotency_key", pa.string(), "The same key is the same effect."),
        _column("body", pa.string(), "The content as JSON text, masked.", required=True),
        _column("subjects", _list(pa.string()), "Whose data it is, hashed."),
        _column(
            "producer",
            pa.struct(
                [
                    _column("name", pa.string(), "Name of the program."),
                    _column("version", pa.string(), "Its version."),
                ]
            ),
            "The program that made the event.",
        ),
        _column("redactions", _list(REDACTION), "Every change made to the row.", required=True),
        _column("ruleset", pa.string(), "Digest of the rules it was masked under.", required=True),
        _column("key_id", pa.string(), "Key of the keyed hashes; empty: none.", required=True),
        *_COORDINATES,
        *_HANDLING,
        _column(
            "retention_from",
            pa.string(),
            "Time the deadline counts from: occurred_at, captured_at, ingested_at (the clock "
            "was over a day ahead) or epoch (its time was before 1970).",
        ),
    ],
    metadata={"table": "events", "description": "One row for each event of a run."},
)

DEAD_LETTERS: Final = pa.schema(
    [
        *_COORDINATES,
        _column("code", pa.string(), "Why the record is no event.", required=True),
        _column("stage", pa.string(), "decode or redact.", required=True),
        _column("length_bytes", pa.int64(), "Length of the value.", required=True),
        _column("payload_hmac", pa.string(), "Keyed hash of the value; null: no key."),
        _column("header_names", _list(pa.string()), "Names of its headers, redacted."),
        _column("kafka_timestamp", _TIME, "The record's timestamp in the topic."),
        _column("ruleset", pa.string(), "Digest of the rules in force.", required=True),
        _column("key_id", pa.string(), "Key of the keyed hash; empty: none.", required=True),
        *_HANDLING[:2],
    ],
    metadata={"table": "dead_letters", "description": "One row for each record that is no event."},
)
