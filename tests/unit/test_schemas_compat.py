"""A schema may change only so that old data and old readers both survive it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schemas import KINDS, IncompatibleSchema, RunEvent, avro
from schemas.compat import require_compatible, unreadable

Change = Callable[[dict[str, Any]], None]


def changed(change: Change) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(json.dumps(avro.current()))
    change(schema)
    return schema


def field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(f for f in schema["fields"] if f["name"] == name)
    return found


def test_the_current_schema_is_compatible_with_all_published_ones() -> None:
    require_compatible(avro.current(), avro.history())


def add_optional_field(schema: dict[str, Any]) -> None:
    schema["fields"].append({"name": "mood", "type": ["null", "string"], "default": None})


def add_kind(schema: dict[str, Any]) -> None:
    field(schema, "kind")["type"]["symbols"].append("agent_napped")


def drop_optional_field(schema: dict[str, Any]) -> None:
    schema["fields"].remove(field(schema, "retry_of"))


def write_another_doc(schema: dict[str, Any]) -> None:
    field(schema, "body")["doc"] = "Other words."


@pytest.mark.parametrize(
    "change", [add_optional_field, add_kind, drop_optional_field, write_another_doc]
)
def test_a_change_that_adds_is_let_through(change: Change) -> None:
    require_compatible(changed(change), avro.history())


def add_required_field(schema: dict[str, Any]) -> None:
    schema["fields"].append({"name": "mood", "type": "string"})


def drop_required_field(schema: dict[str, Any]) -> None:
    schema["fields"].remove(field(schema, "sequence"))


def rename_field(schema: dict[str, Any]) -> None:
    field(schema, "sequence")["name"] = "number"


def narrow_sequence(schema: dict[str, Any]) -> None:
    field(schema, "sequence")["type"] = "int"


def make_body_bytes_of_times(schema: dict[str, Any]) -> None:
    field(schema, "body")["type"] = "long"


def make_times_milliseconds(schema: dict[str, Any]) -> None:
    field(schema, "occurred_at")["type"]["logicalType"] = "timestamp-millis"


def make_name_required(schema: dict[str, Any]) -> None:
    field(schema, "name")["type"] = "string"


def drop_the_kinds_default(schema: dict[str, Any]) -> None:
    del field(schema, "kind")["type"]["default"]
    add_kind(schema)
    field(schema, "kind")["type"]["symbols"].remove("message")


def rename_record(schema: dict[str, Any]) -> None:
    schema["name"] = "Event"


def add_required_redaction_field(schema: dict[str, Any]) -> None:
    field(schema, "redactions")["type"]["items"]["fields"].append({"name": "by", "type": "string"})


BREAKING: list[tuple[Change, str]] = [
    (add_required_field, "old data, new reader: RunEvent.mood: is missing and has no default"),
    (drop_required_field, "new data, old reader: RunEvent.sequence: is missing and has no default"),
    (rename_field, "RunEvent.number: is missing"),
    (narrow_sequence, "old data, new reader: RunEvent.sequence: long became int"),
    (make_body_bytes_of_times, "RunEvent.body: string became long"),
    (make_times_milliseconds, "RunEvent.occurred_at: the unit timestamp-micros became"),
    (make_name_required, "RunEvent.name: null became string"),
    (drop_the_kinds_default, "RunEvent.kind: the symbol message is unknown"),
    (rename_record, "was named RunEvent"),
    (add_required_redaction_field, "RunEvent.redactions[].by: is missing"),
]


@pytest.mark.parametrize(("change", "problem"), BREAKING, ids=[c.__name__ for c, _ in BREAKING])
def test_a_breaking_change_is_refused_and_its_place_named(change: Change, problem: str) -> None:
    with pytest.raises(IncompatibleSchema) as caught:
        require_compatible(changed(change), avro.history())
    assert problem in str(caught.value)


def test_a_renamed_field_with_an_alias_reads_old_data() -> None:
    def rename(schema: dict[str, Any]) -> None:
        rename_field(schema)
        field(schema, "number")["aliases"] = ["sequence"]

    assert unreadable(avro.current(), changed(rename)) == []


@pytest.mark.parametrize(
    ("writer", "reader", "is_readable"),
    [
        ("int", "long", True),
        ("long", "int", False),
        (["null", "int"], ["null", "long"], True),
        (["null", "int", "string"], ["null", "int"], False),
        ("string", ["null", "string"], True),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, True),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            False,
        ),
    ],
)
def test_resolution_follows_the_specification(writer: Any, reader: Any, is_readable: bool) -> None:
    assert (unreadable(writer, reader) == []) == is_readable


def test_a_schema_that_holds_itself_is_compared_to_its_end() -> None:
    def node(value: str) -> dict[str, Any]:
        fields = [
            {"name": "value", "type": value},
            {"name": "next", "type": ["null", "Node"], "default": None},
        ]
        return {"type": "record", "name": "Node", "fields": fields}

    assert unreadable(node("int"), node("long")) == []
    assert unreadable(node("long"), node("int")) == ["Node.value: long became int"]


def test_schema_and_event_have_the_same_fields_and_kinds() -> None:
    schema = avro.current()
    names = {f["name"] for f in schema["fields"]}
    assert names == set(RunEvent.__dataclass_fields__)
    symbols = field(schema, "kind")["type"]["symbols"]
    assert symbols == [kind.replace(".", "_") for kind in KINDS]
