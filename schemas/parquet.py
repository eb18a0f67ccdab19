"""The tables of the lake: columns, types, and what each column means.

`EVENTS`, `RUNS` and `DEAD_LETTERS` are the declared schemas of every file; hive columns are not in
them.  Each field's description is its metadata under `description`, from which the data dictionary
is made.  Times are UTC microseconds.
"""

from collections.abc import Iterator
from typing import Any, Final

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

_MEMBER: Final = (
    _column(
        "record_index",
        pa.int32(),
        "Which, from 0, of the events of a record that holds several; null: the record is one.",
    ),
    _column("record_events", pa.int32(), "How many events that record holds."),
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
        _column(
            "sequence",
            pa.int64(),
            "From 0 within (run_id, attempt); where record_index is set: the time, in epoch µs.",
            required=True,
        ),
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
        *_MEMBER,
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
        *_MEMBER,
    ],
    metadata={"table": "dead_letters", "description": "One row for each record that is no event."},
)

EVIDENCE: Final = pa.struct(
    [
        _column("event_id", pa.string(), "The event that says so."),
        _column("kafka_offset", pa.int64(), "Its offset in the run's partition."),
        _column("digest", pa.string(), "SHA-256 of its stored body, sha256:<hex>."),
        _column("deadline", _TIME, "When that event goes."),
        _column("redactions", pa.int32(), "Changes to its body that its row declares."),
        _column(
            "is_embedded",
            pa.bool_(),
            "Whether the content stands here; if not (it goes before the record, or is too long) "
            "the event is referred to.",
        ),
    ]
)

REFERENCE: Final = pa.struct(
    [
        _column("name", pa.string(), "Name of what is kept elsewhere."),
        _column("version", pa.string(), "Version, tag or revision."),
        _column("digest", pa.string(), "Digest of its content; without one it may change."),
        _column("uri", pa.string(), "Where it is."),
    ]
)

_EVIDENCE_COLUMN: Final = _column("evidence", EVIDENCE, "Where this is known from.")


def _struct(*columns: "pa.Field[pa.DataType]") -> pa.DataType:
    return pa.struct(list(columns))


_IDENTITY: Final = _struct(
    _column("parent_run_id", pa.string(), "The run that started this one."),
    _column("retry_of", pa.string(), "What this attempt tries again."),
    _column("first_sequence", pa.int64(), "Lowest sequence seen."),
    _column("last_sequence", pa.int64(), "Highest sequence seen."),
    _column("started_at", _TIME, "Earliest time of an event."),
    _column("ended_at", _TIME, "Latest time of an event."),
    _EVIDENCE_COLUMN,
)

_CODE: Final = _struct(
    _column("repository", pa.string(), "Repository the agent worked in."),
    _column("commit", pa.string(), "Commit it started from."),
    _column("patch_digest", pa.string(), "Digest of the patch on top, as stored."),
    _column("patch_length", pa.int64(), "Length of that patch in code points."),
    _column("is_clean", pa.bool_(), "The checkout was declared clean."),
    _EVIDENCE_COLUMN,
)

_POLICY: Final = _struct(
    _column("factory_revision", pa.string(), "Revision of what runs the agents."),
    _column("prompts", _list(REFERENCE), "Prompts as resolved."),
    _column("skills", _list(REFERENCE), "Skills as resolved."),
    _column("harness", REFERENCE, "The harness."),
    _column("tools", _list(REFERENCE), "Tool configurations as resolved."),
    _EVIDENCE_COLUMN,
)

_ENVIRONMENT: Final = _struct(
    _column("image", REFERENCE, "The runner's image."),
    _column("toolchain", pa.string(), "Toolchain as JSON."),
    _column("dependencies", REFERENCE, "Lock file or the like."),
    _column("setup", pa.string(), "Set-up steps as JSON."),
    _column("cache", pa.string(), "State of caches at the start."),
    _column("resources", pa.string(), "Resource limits as JSON."),
    _EVIDENCE_COLUMN,
)

_TASK: Final = _struct(
    _column("trigger", pa.string(), "What set the run off, as JSON."),
    _column("trigger_evidence", EVIDENCE, "Where the trigger is known from."),
    _column("snapshot", pa.string(), "The task as it stood, as JSON."),
    _column("source", pa.string(), "Where the task was taken from."),
    _column("captured_at", pa.string(), "When, as told by the agent's runner."),
    _EVIDENCE_COLUMN,
)

_INTEGRATION: Final = _struct(
    _column("name", pa.string(), "The integration."),
    _column("endpoint", pa.string(), "Where it was reached."),
    _column("contract", REFERENCE, "Contract and version."),
    _column("adapter", REFERENCE, "Adapter and version."),
    _column("fixtures", REFERENCE, "Recorded responses, if any were used."),
    _column("matching_policy", pa.string(), "How a request is matched with a recorded one."),
    _EVIDENCE_COLUMN,
)

_MODEL: Final = _struct(
    _column("provider", pa.string(), "Who serves the model."),
    _column("requested_model", pa.string(), "The model that was asked for."),
    _column("returned_models", _list(pa.string()), "The models that answered."),
    _column("api_version", pa.string(), "Version of the provider's API."),
    _column("settings", pa.string(), "Settings of the first request, as JSON."),
    _column("requests", pa.int64(), "Requests."),
    _column("responses", pa.int64(), "Responses."),
    _column("request_ids", _list(pa.string()), "The provider's ids of the first requests."),
    _column("input_tokens", pa.int64(), "Tokens in, summed."),
    _column("output_tokens", pa.int64(), "Tokens out, summed."),
    _EVIDENCE_COLUMN,
)

_SPAN: Final = _struct(
    _column("first", pa.int64(), "First sequence that is missing."),
    _column("last", pa.int64(), "Last sequence that is missing."),
)

_STEPS: Final = _struct(
    _column("messages", pa.int64(), "Messages."),
    _column("model_requests", pa.int64(), "Requests to models."),
    _column("model_responses", pa.int64(), "Answers of models."),
    _column("tool_requests", pa.int64(), "Calls of tools."),
    _column("tool_responses", pa.int64(), "Results of tools."),
    _column("errors", pa.int64(), "Errors."),
    _column("interventions", pa.int64(), "Interventions from outside the agent."),
    _column("others", pa.int64(), "Events of a kind that is not known."),
    _column("holes", _list(_SPAN), "Where the sequence has holes; the first ones."),
    _column("first_deadline", _TIME, "When the first of the events goes."),
)

_OUTPUT: Final = _struct(
    _column("name", pa.string(), "The artifact."),
    _column("purpose", pa.string(), "patch, check, report or capture."),
    _column("digest", pa.string(), "Digest of its content."),
    _column("uri", pa.string(), "Where it is."),
    _column("size_bytes", pa.int64(), "Its size."),
    _EVIDENCE_COLUMN,
)

_DECISION: Final = _struct(
    _column("decision", pa.string(), "What was decided."),
    _column("actor", pa.string(), "Who decided."),
    _column("approval", pa.string(), "Reference of the approval."),
    _column("reason", pa.string(), "Why."),
    _column("artifacts", _list(pa.string()), "Digests or names of what it rests on."),
    _EVIDENCE_COLUMN,
)

_EFFECT: Final = _struct(
    _column("effect_id", pa.string(), "The effect."),
    _column("name", pa.string(), "Its name."),
    _column("state", pa.string(), "intended, completed, or unknown once the run has ended."),
    _column("status", pa.string(), "ok or error, as its completion says."),
    _column("actor", pa.string(), "Who acted."),
    _column("approval", pa.string(), "Reference of the approval."),
    _column("capability", pa.string(), "The scope it was allowed under."),
    _column("idempotency_key", pa.string(), "The same key is the same effect."),
    _EVIDENCE_COLUMN,
    _column("completed_evidence", EVIDENCE, "Where its completion is known from."),
)

_AUTHORITY: Final = _struct(
    _column("decisions", _list(_DECISION), "Decisions, in order."),
    _column("effects", _list(_EFFECT), "Effects, in order."),
)

_INPUT: Final = _struct(
    _column("input", pa.string(), "The input, or the part of the record it stands for."),
    _column("state", pa.string(), "missing, mutable or not_applicable."),
    _column("access_owner", pa.string(), "Who can give access."),
    _column("replay_restriction", pa.string(), "What a replay may do."),
    _EVIDENCE_COLUMN,
)

_HANDLING_ROW: Final = _struct(
    _column("inputs", _list(_INPUT), "Declared inputs, in order."),
    _column("access_owners", _list(pa.string()), "Who can give access."),
    _column("replay_restrictions", _list(pa.string()), "What a replay may do."),
)

_MISSING: Final = _struct(
    _column("field", pa.string(), "Part of the record, as <row>.<field>."),
    _column("reason", pa.string(), "missing, declared missing, mutable, expired, undeclared …"),
    _column("cost", pa.string(), "What cannot be told without it."),
)

RUNS: Final = pa.schema(
    [
        _column("run_id", pa.string(), "The run.", required=True),
        _column("attempt", pa.int32(), "Delivery attempt within the run.", required=True),
        _column(
            "version", pa.int64(), "1, and one more for each event after its end.", required=True
        ),
        _column(
            "status",
            pa.string(),
            "completed, failed, cancelled, finished (no word how) or abandoned.",
            required=True,
        ),
        _column("complete", pa.bool_(), "Whether all eleven rows stand.", required=True),
        _column("identity", _IDENTITY, "Row 1: which attempt this is."),
        _column("code", _CODE, "Row 2: the code that was supplied."),
        _column("policy", _POLICY, "Row 3: what the agent was told and allowed."),
        _column("environment", _ENVIRONMENT, "Row 4: where it ran."),
        _column("task", _TASK, "Row 5: what it was to do."),
        _column("integrations", _list(_INTEGRATION), "Row 6: services it talked to."),
        _column("models", _list(_MODEL), "Row 7: models it asked."),
        _column("steps", _STEPS, "Row 8: what was observed, in numbers; events has the rest."),
        _column("outputs", _list(_OUTPUT), "Row 9: what it left behind."),
        _column("authority", _AUTHORITY, "Row 10: decisions and the effects they led to."),
        _column("handling", _HANDLING_ROW, "Row 11: what is missing or may change."),
        _column(
            "completeness",
            _list(
                _struct(
                    _column("row", pa.string(), "Column of the record."),
                    _column(
                        "state",
                        pa.string(),
                        "present, not applicable, redacted, mutable, declared missing, missing or "
                        "expired.",
                    ),
                )
            ),
            "The state of each of the eleven rows.",
            required=True,
        ),
        _column("missing", _list(_MISSING), "What is not there and what it costs.", required=True),
        _column("events", pa.int64(), "Events, each counted once.", required=True),
        _column("doubled", pa.int64(), "Repetitions of an event by its producer.", required=True),
        _column("holes", pa.int64(), "Sequence numbers without an event.", required=True),
        _column(
            "redactions",
            _list(
                _struct(
                    _column("rule", pa.string(), "Id of the rule."),
                    _column("count", pa.int64(), "Changes it made."),
                )
            ),
            "Changes by rule.",
            required=True,
        ),
        _column(
            "effects",
            _struct(
                _column("intended", pa.int64(), "All effects."),
                _column("completed", pa.int64(), "Those of which a completion was seen."),
                _column("unknown", pa.int64(), "Those of which none was."),
            ),
            "Effects by state.",
            required=True,
        ),
        *_COORDINATES[:2],
        _column("first_offset", pa.int64(), "Lowest offset of an event.", required=True),
        _column("last_offset", pa.int64(), "Highest offset of an event.", required=True),
        _column("ruleset", pa.string(), "Digest of the rules of the last slice.", required=True),
        _column("key_id", pa.string(), "Key of that slice's keyed hashes.", required=True),
        *_HANDLING[:2],
    ],
    metadata={"table": "runs", "description": "One row for each version of an attempt's record."},
)


def evidences(value: Any) -> Iterator[dict[str, Any]]:
    """The references to events anywhere in a record."""
    if isinstance(value, dict):
        if "is_embedded" in value:
            yield value
        for item in value.values():
            yield from evidences(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from evidences(item)
