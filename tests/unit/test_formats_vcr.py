"""VCR cassettes: each request with its response, as it stands, in YAML as in JSON."""

import base64
import json
from io import BytesIO
from typing import Any

import pytest
import yaml

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["vcr"]
NOW_US = 1_772_366_400_000_000
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello"}]})
SAID = json.dumps({"id": "r-1", "model": "m-2026", "usage": {"input_tokens": 7}})
MODEL = {
    "request": {"method": "POST", "uri": "https://models.test/v1", "body": ASKED, "headers": {}},
    "response": {"status": {"code": 200, "message": "OK"}, "body": {"string": SAID}},
}
LOOK = {
    "request": {"method": "GET", "uri": "https://shop.test:8443/a?b=c", "body": None},
    "response": {"status": {"code": 404, "message": "Not Found"}, "body": {"string": ""}},
    "recorded_at": "Fri, 27 Feb 2026 10:00:00 GMT",
}
CASSETTE = {"interactions": [MODEL, LOOK], "version": 1}


def read(content: bytes) -> list[RunEvent]:
    assert FORMAT.sniff(content)
    return list(FORMAT.read(Source(BytesIO(content), "cassette", NOW_US)))


def as_yaml(cassette: Any) -> bytes:
    return yaml.safe_dump(cassette).encode()


def as_json(cassette: Any) -> bytes:
    return json.dumps(cassette, indent=4).encode()


@pytest.mark.parametrize("write", [as_yaml, as_json])
def test_a_request_to_a_model_is_told_from_one_to_a_tool(write: Any) -> None:
    events = [e for e in read(write(CASSETTE)) if e.kind != "input.declared"]
    assert [(e.kind, e.name, e.call_id) for e in events] == [
        ("run.started", None, None),
        ("model.requested", "m", "interaction-0"),
        ("model.responded", "m", "interaction-0"),
        ("tool.requested", "shop.test", "interaction-1"),
        ("tool.responded", "shop.test", "interaction-1"),
    ]
    bodies = [json.loads(e.body) for e in events]
    assert bodies[1] == {
        "provider": "models.test", "requested_model": "m", "request": MODEL["request"]
    }  # fmt: skip
    assert (bodies[2]["returned_model"], bodies[2]["usage"]) == ("m-2026", {"input_tokens": 7})
    assert bodies[2]["response"] == MODEL["response"]
    assert bodies[3] == {"arguments": LOOK["request"]}
    assert (bodies[4]["status"], bodies[4]["content"]) == ("error", LOOK["response"])


def test_an_interaction_has_the_time_it_was_recorded_at() -> None:
    iso = {**LOOK, "recorded_at": "2026-02-27T10:00:01"}
    events = read(as_yaml({"http_interactions": [MODEL, LOOK, iso], "recorded_with": "VCR 6"}))
    assert [e.occurred_at for e in events if e.kind.endswith("requested")] == [
        NOW_US,
        1_772_186_400_000_000,
        1_772_186_401_000_000,
    ]


def test_bytes_are_text_or_base64_and_times_stay_as_they_stand() -> None:
    words, noise = b'{"a": 1}', bytes(range(256))
    cassette = {
        "interactions": [
            {"request": {"body": words}, "response": {"body": {"string": noise}}},
        ]
    }
    content = as_yaml(cassette) + b"made: 2026-02-27 10:00:00\n"
    events = read(content)
    request, response = (json.loads(e.body) for e in events[-2:])
    assert request["arguments"]["body"] == words.decode()
    kept = response["content"]["body"]["string"]
    assert base64.b64decode(kept["base64_string"]) == noise
    assert json.loads(events[0].body)["made"] == "2026-02-27 10:00:00"


def test_aliases_are_followed_but_not_without_end() -> None:
    headers = {"Accept": ["*/*"]}
    shared = {**MODEL, "request": {**MODEL["request"], "headers": headers, "again": headers}}
    content = as_yaml({"interactions": [shared]})
    assert b"*id001" in content
    request = json.loads(read(content)[-2].body)["request"]
    assert request["headers"] == request["again"] == headers

    doubling = "".join(f"- &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    bomb = b"interactions:\n- request: {}\nmore:\n- &a0 [x]\n" + doubling.encode()
    with pytest.raises(InputError, match="aliases make it too large"):
        read(bomb)
    with pytest.raises(InputError, match="within itself"):
        read(b"interactions: &a\n- request: *a\n")


@pytest.mark.parametrize(
    "bad",
    [
        b"interactions:\n- request: {}\n",
        b"interactions: 7 # request:\n",
        b"interactions: [request: {}, response: {}, response: {}\n",
        b"interactions:\n- request: {a: 1, a: 2}\n  response: {}\n",
        b"interactions:\n- request: !!python/name:os.system {}\n  response: {}\n",
        b'{"interactions": [{"request": {}, "response": {}}, {"request": {}}]}',
        b"interactions:\n- request: " + b"[" * 50_000,
    ],
    ids=["no-response", "no-list", "cut", "repeated-key", "code", "json", "deep"],
)
def test_what_is_no_cassette_is_refused(bad: bytes) -> None:
    with pytest.raises(InputError, match=r"^cassette: "):
        read(bad)
