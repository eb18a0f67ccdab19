"""A row equals its record outside what it declares, and nowhere else."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.lake.proof.compare import body_equals, differs
from schemas import Producer, RunEvent

EVENT = RunEvent(
    event_id="e1",
    run_id="r1",
    sequence=0,
    occurred_at=1_790_000_000_000_000,
    kind="message",
    body='{"a": 1}',
    name="tool",
    subjects=("ann",),
    producer=Producer("p", "1"),
)


def redaction(path: str, start: int | None = None, end: int | None = None, *layers: str) -> Any:
    return {"path": path, "span_start": start, "span_end": end, "layers": list(layers)}


def row(**columns: Any) -> dict[str, Any]:
    return {
        "event_id": "e1",
        "run_id": "r1",
        "parent_run_id": None,
        "retry_of": None,
        "attempt": 1,
        "sequence": 0,
        "occurred_at": datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC),
        "captured_at": None,
        "kind": "message",
        "kind_name": None,
        "name": "tool",
        "call_id": None,
        "idempotency_key": None,
        "requested_class": None,
        "subjects": ["ann"],
        "producer": {"name": "p", "version": "1"},
        "body": '{"a": 1}',
        "redactions": [],
    } | columns


def test_a_row_that_is_as_it_came_does_not_differ() -> None:
    assert differs(row(), EVENT) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("run_id", "r2"),
        ("attempt", 2),
        ("name", None),
        ("subjects", []),
        ("occurred_at", datetime(2026, 9, 21, 14, 13, 21, tzinfo=UTC)),
        ("body", '{"a":1}'),
        ("requested_class", "debug"),
    ],
)
def test_a_column_that_differs_is_named(column: str, value: Any) -> None:
    assert differs(row(**{column: value}), EVENT) == column


def test_a_column_that_is_declared_may_differ() -> None:
    masked = row(name="[ID:k1:abc]", subjects=["x"], producer={"name": "[ID]", "version": "1"})
    masked["redactions"] = [redaction(path) for path in ("name", "subjects", "producer_name")]
    assert differs(masked, EVENT) is None
    assert differs(masked, replace(EVENT, run_id="r2")) == "run_id"


EQUAL = {
    "a whole value": ('{"p": "[X]"}', '{"p": "secret"}', [redaction("/p")]),
    "a number made a mask": ('{"p": ["[X]"]}', '{"p": [4111]}', [redaction("/p/0")]),
    "a span": ('["key [X] ok"]', '["key abc ok"]', [redaction("/0", 4, 7)]),
    "two spans": (
        '["a [X] b [Y] c"]',
        '["a one b two c"]',
        [redaction("/0", 2, 5), redaction("/0", 8, 11)],
    ),
    "a span behind escapes": (
        r'{"p~/": "\u00e4\n[X]\"q"}',
        r'{"p~/": "\u00e4\nabc\"q"}',
        [redaction("/p~0~1", 2, 5)],
    ),
    "a span in JSON inside a string": (
        r'{"p": "{\"q\": \"[X]\"}"}',
        r'{"p": "{\"q\": \"abc\"}"}',
        [redaction("/p", 7, 10, "json")],
    ),
    "a number in JSON inside a string": (
        r'{"p": "{\"q\": \"[X]\", \"n\": 1}"}',
        r'{"p": "{\"q\": 4111, \"n\": 1}"}',
        [redaction("/p", 7, 10, "json")],
    ),
    "a layer further in": ('["[X]"]', '["c2VjcmV0"]', [redaction("/0", 0, 3, "base64", "json")]),
    "a key": ('{"[X]": 1, "b": 2}', '{"me@x": 1, "b": 2}', [redaction("/[X]", 0, 3, "key")]),
    "the whole body": ('"[X]"', '"secret"', [redaction("")]),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_declared_may_differ(name: str) -> None:
    assert body_equals(*EQUAL[name])


DIFFERENT = {
    "nothing declared": ('{"p": "[X]"}', '{"p": "secret"}', []),
    "another place declared": ('{"p": "[X]", "q": 1}', '{"p": "s", "q": 1}', [redaction("/q")]),
    "text before the span": ('["kay [X] ok"]', '["key abc ok"]', [redaction("/0", 4, 7)]),
    "text after the span": ('["key [X] no"]', '["key abc ok"]', [redaction("/0", 4, 7)]),
    "text between spans": (
        '["a [X] B [Y] c"]',
        '["a one b two c"]',
        [redaction("/0", 2, 5), redaction("/0", 8, 11)],
    ),
    "a quote on one side": (r'["a \"[X]"]', '["a 4111"]', [redaction("/0", 3, 6)]),
    "an item less": ('["[X]"]', '["s", 1]', [redaction("/0")]),
    "a container for a value": ('["[X]"]', '[{"a": 1}]', [redaction("/0")]),
    "other white space": ('{"p":"[X]"}', '{"p": "s"}', [redaction("/p")]),
    "a number that lost digits": (
        '{"n": 1.1, "p": "[X]"}',
        '{"n": 1.10, "p": "s"}',
        [redaction("/p")],
    ),
    "a key for a value": ('{"[X]": 1}', '{"me@x": 1}', [redaction("/[X]", 0, 3)]),
    "a value for a key": ('{"k": "[X]"}', '{"k": "s"}', [redaction("/k", 0, 3, "key")]),
    "the order of members": ('{"b": "[X]", "a": 1}', '{"a": 1, "b": "s"}', [redaction("/b")]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_is_not_declared_may_not_differ(name: str) -> None:
    assert not body_equals(*DIFFERENT[name])


def test_a_long_body_is_read_in_step_once() -> None:
    head = '{"text": "' + '\\"a' * 50_000 + '", "p": "'
    assert body_equals(head + '[X]"}', head + 'secret"}', [redaction("/p")])
