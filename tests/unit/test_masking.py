"""One message becomes a masked row: a secret in whatever place it comes is in no column of it."""

import dataclasses
import json
from typing import Any

import pytest

from pipeline.deltas import Deltas
from pipeline.masking import Coordinates, DeadLetter, MaskedEvent, Masker, Refused
from pipeline.slices import Message
from redactors.templates import expand
from schemas import DeclaredRedaction, Producer, RunEvent, encode

NOW_US = 1_790_000_000_000_000
AT = Coordinates("runs", 0)
PLAIN = RunEvent(
    event_id="event-1", run_id="run-1", sequence=0, occurred_at=NOW_US, kind="message", body="{}"
)
CLAIM = DeclaredRedaction("/text", "email", "EMAIL", "mask")


@pytest.fixture(scope="module")
def secret() -> str:
    return expand("{{github:ghp_}}")


def _mask(masker: Masker, value: bytes, headers: tuple[str, ...] = ()) -> Any:
    return masker.mask(Message(1, NOW_US, b"run-1", value, headers), AT, NOW_US)


COLUMNS = (
    "event_id", "run_id", "parent_run_id", "retry_of", "name", "call_id", "idempotency_key",
    "retention_class", "ruleset", "kind",
)  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_a_secret_in_a_column_is_in_no_row(masker: Masker, secret: str, column: str) -> None:
    result = _mask(masker, encode(dataclasses.replace(PLAIN, **{column: secret})))
    assert isinstance(result, MaskedEvent)
    assert secret not in repr(result)


@pytest.mark.parametrize("field", ["path", "rule", "label", "action", "layers"])
def test_a_secret_in_what_a_producer_declares_is_in_no_row(
    masker: Masker, secret: str, field: str
) -> None:
    claim = dataclasses.replace(CLAIM, **{field: (secret,) if field == "layers" else secret})
    event = dataclasses.replace(PLAIN, body='{"text":"[EMAIL]"}', redactions=(claim,))
    result = _mask(masker, encode(event))
    assert isinstance(result, MaskedEvent)
    assert secret not in repr(result)


def test_an_event_with_nothing_to_hide_has_no_redactions(masker: Masker) -> None:
    assert _mask(masker, encode(PLAIN)).redactions == ()


def test_what_a_producer_declares_truly_stands_in_the_row(masker: Masker) -> None:
    event = dataclasses.replace(PLAIN, body='{"text":"[EMAIL]"}', redactions=(CLAIM,))
    (redaction,) = _mask(masker, encode(event)).redactions
    assert (redaction.path, redaction.rule, redaction.by) == ("/text", "email", "emitter")


def test_a_secret_among_subjects_or_in_the_producer_is_in_no_row(
    masker: Masker, secret: str
) -> None:
    event = dataclasses.replace(PLAIN, subjects=(secret,), producer=Producer(secret, secret))
    assert secret not in repr(_mask(masker, encode(event)))


def test_a_secret_in_an_unknown_field_is_in_no_row(masker: Masker, secret: str) -> None:
    fields = {name: getattr(PLAIN, name) for name in ("event_id", "run_id", "sequence", "kind")}
    fields |= {"occurred_at": NOW_US, "body": "{}", secret: 1, "later": {"deep": [secret]}}
    result = _mask(masker, json.dumps(fields).encode())
    assert isinstance(result, MaskedEvent)
    assert secret not in repr(result)


def test_a_dead_letter_holds_neither_the_value_nor_a_secret_header(
    masker: Masker, secret: str
) -> None:
    result = _mask(masker, f'{{"key": "{secret}", '.encode(), (secret, "trace-id"))
    assert isinstance(result, DeadLetter)
    assert secret not in repr(result)
    assert "trace-id" in result.row["header_names"]


def test_how_many_are_taken_at_once_changes_nothing(masker: Masker, secret: str) -> None:
    names = [secret, "two words", "x" * 300, "", "fetch", f"{'y' * 280}{secret}"]
    events = [
        dataclasses.replace(PLAIN, event_id=f"event-{at}", name=name, call_id=names[-(at % 6)])
        for at, name in enumerate(names * 2)
    ]
    messages = [Message(at, NOW_US, b"run-1", encode(each)) for at, each in enumerate(events)]
    messages.insert(3, Message(99, NOW_US, b"run-1", b"rubbish"))
    together = Masker(masker.redactor, masker.policy)
    decoded = [together.decoded(each) for each in messages]
    taken = together.take(decoded, AT, NOW_US, None, Deltas(masker.redactor.masks))
    alone = [Masker(masker.redactor, masker.policy).mask(each, AT, NOW_US) for each in messages]
    assert taken == alone
    assert secret not in repr(taken)
    columns = [each.path for each in alone[0].redactions]
    assert columns == ["call_id", "name"], "declared under the column that it stands in"


def test_an_event_past_its_deadline_is_refused_and_kept_nowhere(masker: Masker) -> None:
    old = dataclasses.replace(PLAIN, occurred_at=NOW_US - 400 * 24 * 3_600_000_000)
    assert _mask(masker, encode(old)) == Refused()
