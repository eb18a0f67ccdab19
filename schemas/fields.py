"""Plain fields (what Avro and JSON decode to) to events and back, with every check on the way."""

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from schemas.errors import DecodeError
from schemas.events import KINDS, OTHER, DeclaredRedaction, Producer, RunEvent

UNKNOWN_FIELDS: Final = "_unknown_fields"
WRAPPED_BODY: Final = "_body"

_TEXT: Final = ("event_id", "run_id", "kind", "body")
_OPTIONAL_TEXT: Final = (
    "parent_run_id",
    "retry_of",
    "kind_name",
    "name",
    "call_id",
    "idempotency_key",
    "retention_class",
    "ruleset",
)
_REDACTION_TEXT: Final = ("path", "rule", "label", "action")
_FIELDS: Final = frozenset(RunEvent.__dataclass_fields__)
_REDACTION_FIELDS: Final = frozenset(DeclaredRedaction.__dataclass_fields__)
_PRODUCER_FIELDS: Final = frozenset(Producer.__dataclass_fields__)

# An Avro symbol has no dots: both spellings lead to the kind.
_KIND_OF: Final = {spelling: kind for kind in KINDS for spelling in (kind, kind.replace(".", "_"))}

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
# Years 1 to 9999, what every reader of the tables can show.
_TIME_MIN_US: Final = -62_135_596_800_000_000
_TIME_MAX_US: Final = 253_402_300_799_999_999


def event_of(fields: dict[str, Any]) -> RunEvent:
    """The event with these fields; `DecodeError` if a field is missing, mistyped or out of range.

    An absent field takes its default; an unknown one is kept in the body (see `codec`).
    """
    _check_scalars(fields)
    body = fields["body"]
    check_body(body)
    producer, unknown_producer = _producer_of(fields.get("producer"))
    redactions, unknown_redactions = _redactions_of(fields.get("redactions"))
    if unknown_producer or unknown_redactions or not fields.keys() <= _FIELDS:
        unknown = _others(fields, _FIELDS)
        unknown |= {"producer": unknown_producer} if unknown_producer else {}
        unknown |= {"redactions": unknown_redactions} if unknown_redactions else {}
        body = _with_unknown(body, unknown)
    get = fields.get
    kind = _KIND_OF.get(fields["kind"], OTHER)
    known = fields["kind"] in _KIND_OF
    return RunEvent(
        event_id=fields["event_id"],
        run_id=fields["run_id"],
        sequence=fields["sequence"],
        occurred_at=fields["occurred_at"],
        kind=kind,
        body=body,
        attempt=get("attempt", 1),
        parent_run_id=get("parent_run_id"),
        retry_of=get("retry_of"),
        captured_at=get("captured_at"),
        kind_name=get("kind_name") if known else fields["kind"],
        name=get("name"),
        call_id=get("call_id"),
        idempotency_key=get("idempotency_key"),
        retention_class=get("retention_class"),
        subjects=_texts(get("subjects", ())),
        producer=producer,
        redactions=redactions,
        ruleset=get("ruleset"),
    )


def fields_of(event: RunEvent) -> dict[str, Any]:
    """All fields of an event by wire name, the kind in its dotted form."""
    fields = {name: getattr(event, name) for name in RunEvent.__dataclass_fields__}
    fields["producer"] = {"name": event.producer.name, "version": event.producer.version}
    fields["subjects"] = list(event.subjects)
    fields["redactions"] = [
        {name: getattr(redaction, name) for name in DeclaredRedaction.__dataclass_fields__}
        | {"layers": list(redaction.layers)}
        for redaction in event.redactions
    ]
    if event.kind not in KINDS:
        fields |= {"kind": OTHER, "kind_name": event.kind}
    return fields


def check_body(body: str) -> None:
    """Raise `DecodeError` unless `body` is one JSON text."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        _check_body_slowly(body)


def _check_body_slowly(body: str) -> None:
    # orjson also refuses escapes of half surrogate pairs, which are JSON: redaction judges those.
    try:
        json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise DecodeError("too-deep") from None
    except ValueError:
        raise DecodeError("body-not-json") from None


def _refuse_constant(name: str) -> None:
    raise ValueError("NaN and Infinity are no JSON")


def _check_scalars(fields: Mapping[str, Any]) -> None:
    get = fields.get
    for name in _TEXT:
        if type(get(name)) is not str:
            raise DecodeError("not-an-event")
    for name in _OPTIONAL_TEXT:
        value = get(name)
        if value is not None and type(value) is not str:
            raise DecodeError("not-an-event")
    _check_int(get("sequence"), 0, _INT64_MAX)
    _check_int(get("occurred_at"), _TIME_MIN_US, _TIME_MAX_US)
    _check_int(get("attempt", 1), 0, _INT32_MAX)
    if get("captured_at") is not None:
        _check_int(get("captured_at"), _TIME_MIN_US, _TIME_MAX_US)


def _check_int(value: Any, least: int, most: int) -> None:
    if type(value) is not int:
        raise DecodeError("not-an-event")
    if not least <= value <= most:
        raise DecodeError("out-of-range")


def _texts(value: Any) -> tuple[str, ...]:
    if not value and isinstance(value, (list, tuple)):
        return ()
    if not isinstance(value, (list, tuple)) or any(type(text) is not str for text in value):
        raise DecodeError("not-an-event")
    return tuple(value)


def _producer_of(value: Any) -> tuple[Producer, dict[str, Any]]:
    if value is None:
        return Producer(), {}
    if not isinstance(value, dict):
        raise DecodeError("not-an-event")
    name, version = value.get("name", ""), value.get("version", "")
    if type(name) is not str or type(version) is not str:
        raise DecodeError("not-an-event")
    unknown = {} if value.keys() <= _PRODUCER_FIELDS else _others(value, _PRODUCER_FIELDS)
    return Producer(name, version), unknown


def _redactions_of(value: Any) -> tuple[tuple[DeclaredRedaction, ...], list[dict[str, Any]]]:
    if not value:
        if value is None or value == []:
            return (), []
        raise DecodeError("not-an-event")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise DecodeError("not-an-event")
    unknown = [_others(item, _REDACTION_FIELDS) for item in value]
    return tuple(_redaction_of(item) for item in value), unknown if any(unknown) else []


def _redaction_of(item: Mapping[str, Any]) -> DeclaredRedaction:
    path, rule, label, action = _texts([item.get(name) for name in _REDACTION_TEXT])
    start, end, length = (item.get(name) for name in ("span_start", "span_end", "length"))
    for number in (start, end, length):
        if number is not None:
            _check_int(number, 0, _INT32_MAX)
    layers = _texts(item.get("layers", ()))
    return DeclaredRedaction(path, rule, label, action, start, end, length, layers)


def _others(value: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: value[key] for key in value if key not in known}


def _with_unknown(body: str, unknown: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(
            unknown,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            default=_bytes_as_text,
        )
    except ValueError:
        raise DecodeError("out-of-range") from None
    head = body.rstrip(" \t\n\r")
    if not head.endswith("}") or f'"{UNKNOWN_FIELDS}"' in body:
        return f'{{"{WRAPPED_BODY}":{body},"{UNKNOWN_FIELDS}":{text}}}'
    head = head[:-1]
    comma = "" if head.rstrip(" \t\n\r").endswith("{") else ","
    return f'{head}{comma}"{UNKNOWN_FIELDS}":{text}}}'


def _bytes_as_text(value: Any) -> str:
    # How Avro's own JSON encoding writes bytes: one code point a byte.
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise DecodeError("not-an-event")
