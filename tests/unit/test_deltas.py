"""Texts that a stream brings in pieces: joined where all of them are at hand, else not stored."""

import json
import string
from typing import Any

import pytest
from delta_streams import AT, NOW_US, chunk, contents, cut, event, masked, masker, rows, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.slices import Message
from schemas import encode

SECRET = "AKIA" + "QRSTUVWXYZ234567"
SAID = f"The key is {SECRET}, use it well."


def test_the_pieces_of_a_message_are_stored_as_one_text_with_the_first() -> None:
    told = contents(rows(masked(stream(["The weather ", "is ", "fine."]))))
    assert told == ["The weather is fine.", "[BLOB:len=3]", "[BLOB:len=5]"]


def test_what_was_joined_is_declared() -> None:
    found = rows(masked(stream(["The weather ", "is ", "fine."])))
    assert found[1]["redactions"] == []
    (moved,) = found[2]["redactions"]
    assert (moved["rule"], moved["path"], moved["length"]) == (
        "delta-joined",
        "/choices/0/delta/content",
        3,
    )
    assert (moved["span_start"], moved["span_end"]) == (0, len("[BLOB:len=3]"))


@pytest.mark.parametrize("at", range(1, len(SAID)))
def test_a_secret_is_found_wherever_it_is_cut(at: int) -> None:
    first, second = contents(rows(masked(stream(cut(SAID, at)))))
    assert first == "The key is [SECRET], use it well."
    assert second == f"[BLOB:len={len(SAID) - at}]"


@pytest.mark.parametrize("border", range(1, 5))
def test_nothing_is_stored_of_a_message_that_a_slice_cuts(border: int) -> None:
    events = stream(cut(SAID, 15, 22, 30))
    found = rows(masked(events[:border]), masked(events[border:], border))
    assert len(found) == len(events)
    if border in (1, 4):  # only the request, or only the end, lies in the other slice
        assert not {"delta-joined"} & {r["rule"] for row in found for r in row["redactions"]}
    for row in found[1:-1]:
        said = json.loads(row["body"])["choices"][0]["delta"]["content"]
        assert said.startswith("[BLOB:")
        assert [r["rule"] for r in row["redactions"]] == ["delta-open"]


def test_words_that_come_again_cannot_be_told_by_their_hashes() -> None:
    told = contents(rows(masked(stream(["no ", "no ", "no ", "yes"])[:-1])))
    assert told[1:] == ["[BLOB:len=3]", "[BLOB:len=3]", "[BLOB:len=3]"]
    assert told[0].startswith("[BLOB:k1:")


def test_a_missing_piece_leaves_nothing_to_join() -> None:
    events = stream(cut(SAID, 15, 22, 30))
    del events[2]
    assert all(text.startswith("[BLOB:") for text in contents(rows(masked(events))))


def test_others_may_speak_meanwhile() -> None:
    first, last = cut(SAID, 17)
    events = [
        event(0, "model.requested", {"model": "m"}),
        event(1, "other", chunk(first)),
        event(2, "other", {"type": "ping"}),
        event(3, "message", {"role": "user", "content": "Wait."}),
        event(4, "tool.responded", {"result": 3}, call_id="c2"),
        event(5, "other", chunk(last)),
        event(6, "model.responded", {"status": "done"}),
    ]
    assert contents(rows(masked(events))) == [
        "The key is [SECRET], use it well.",
        f"[BLOB:len={len(last)}]",
    ]


def test_two_messages_at_once_are_kept_apart() -> None:
    events = [
        event(0, "model.requested", {}, call_id="a"),
        event(1, "model.requested", {}, call_id="b"),
        event(2, "other", chunk("one "), call_id="a"),
        event(3, "other", chunk("two "), call_id="b"),
        event(4, "other", chunk("half"), call_id="a"),
        event(5, "other", chunk("more"), call_id="b"),
        event(6, "model.responded", {}, call_id="b"),
        event(7, "run.finished", {"status": "succeeded"}, call_id=None),
    ]
    told = contents(rows(masked(events)))
    assert told == ["one half", "two more", "[BLOB:len=4]", "[BLOB:len=4]"]


BODIES: dict[str, Any] = {
    "chat completions": chunk,
    "messages": lambda text: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    },
    "responses": lambda text: {"type": "response.output_text.delta", "delta": text},
    "wrapped": lambda text: {"seen": 1, "data": {"delta": text}},
    "tool arguments": lambda text: {
        "choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}]
    },
}


@pytest.mark.parametrize("body_of", BODIES.values(), ids=BODIES)
def test_pieces_are_known_as_clients_get_them(body_of: Any) -> None:
    found = rows(masked(stream(cut(SAID, 14, 20), body_of)))
    assert "The key is [SECRET], use it well." in found[1]["body"]
    assert not any(part in row["body"] for row in found for part in cut(SECRET, 8))


def test_a_member_called_delta_deep_in_a_message_is_no_piece() -> None:
    bodies = [{"role": "tool", "content": {"rows": [{"delta": text}]}} for text in ("+3", "-1")]
    events = [event(n, "message", body) for n, body in enumerate(bodies)]
    assert [json.loads(row["body"]) for row in rows(masked(events))] == bodies


def test_pieces_are_known_by_the_kinds_name() -> None:
    def named(text: str) -> dict[str, object]:
        return {"n": 1, "token": text}

    events = [
        each if each.kind != "other" else event(each.sequence, "other", json.loads(each.body),
                                                kind_name="model.token")
        for each in stream(cut(SAID, 14, 20), named)
    ]  # fmt: skip
    assert "The key is [SECRET], use it well." in rows(masked(events))[1]["body"]


def test_texts_of_one_message_are_told_apart_by_their_index() -> None:
    def block(index: int, text: str) -> dict[str, object]:
        return {"type": "content_block_delta", "index": index, "delta": {"text": text}}

    bodies = [block(0, "Hel"), block(1, "wor"), block(0, "lo"), block(1, "ld")]
    events = [
        event(0, "model.requested", {}),
        *(event(n, "other", body) for n, body in enumerate(bodies, 1)),
        event(5, "model.responded", {}),
    ]
    told = [json.loads(row["body"])["delta"]["text"] for row in rows(masked(events))[1:-1]]
    assert told == ["Hello", "world", "[BLOB:len=2]", "[BLOB:len=2]"]


def test_what_a_run_has_shown_is_masked_in_its_deltas() -> None:
    name = "Quillon Abernethy"
    told = stream(["Dear Quil", "lon Abernethy"])
    events = [
        event(0, "tool.responded", {"full_name": name}, call_id="t"),
        *(event(each.sequence + 1, each.kind, json.loads(each.body)) for each in told),
    ]
    found = rows(masked(events))
    assert not any("Quil" in row["body"] or "Abernethy" in row["body"] for row in found)


def test_a_delta_that_is_read_again_alone_stays_hidden() -> None:
    lone = event(3, "other", chunk("AKIAQRST"))
    result = masker().mask(Message(7, NOW_US, b"run-1", encode(lone)), AT, NOW_US)
    assert "QRST" not in str(result)


def test_a_slice_that_is_redone_is_the_same() -> None:
    events = stream(cut(SAID, 3, 17, 30))
    assert rows(masked(events)) == rows(masked(events))


@given(st.text(string.printable, max_size=60), st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=200)
def test_joined_pieces_are_masked_as_the_whole_text_is(text: str, at: list[int]) -> None:
    pieces = cut(text, *sorted(min(each, len(text)) for each in at))
    whole = contents(rows(masked(stream([text]))))[0]
    told = contents(rows(masked(stream(pieces))))
    first = next((index for index, piece in enumerate(pieces) if piece), 0)
    assert told[first] == whole
