"""A lake keeps the schemas that its topics name: asked for once, by nobody again."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from pipeline.errors import LogError, RegistryError
from pipeline.lake.schemas import MAX_UNKNOWN, topic_decoder
from pipeline.lake.store import Store
from pipeline.registry.client import AWAY, Registry
from schemas import DecodeError, Foreign, RunEvent, avro, encode, encode_json

EVENT = RunEvent(
    event_id="event-1", run_id="run-1", sequence=0, occurred_at=0, kind="message", body="{}"
)
AVRO, JSON = 7, 8


@dataclass
class Double:
    """A registry by what it holds; it counts what it is asked."""

    schemas: dict[Any, Any] = field(
        default_factory=lambda: {AVRO: avro.essential(avro.current()), JSON: Foreign.JSON}
    )
    is_away: bool = False
    asked: list[Any] = field(default_factory=list)

    def schema(self, schema_id: Any) -> Any:
        self.asked.append(schema_id)
        if self.is_away:
            raise RegistryError("it is away", code=AWAY)
        return self.schemas.get(schema_id)

    def __call__(self) -> Registry:
        return cast(Registry, self)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake", create=True)


def _json(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + encode_json(EVENT)


def _code(decoder: Any, value: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        decoder.decode(value)
    return caught.value.code


def test_what_was_asked_for_once_is_known_to_every_later_reader(store: Store) -> None:
    double = Double()
    for registry in (double(), double(), None):
        decoder = topic_decoder(store, "runs", registry)
        for value in (encode(EVENT, AVRO), _json(JSON), encode(EVENT, AVRO)):
            assert decoder.decode(value) == EVENT
    assert double.asked == [AVRO, JSON]


def test_an_outage_passes_through_and_leaves_nothing_behind(store: Store) -> None:
    double = Double(is_away=True)
    decoder = topic_decoder(store, "runs", double())
    with pytest.raises(RegistryError):
        decoder.decode(encode(EVENT, AVRO))
    assert list(store.walk("_log")) == []
    double.is_away = False
    assert decoder.decode(encode(EVENT, AVRO)) == EVENT


def test_an_id_of_no_schema_is_not_kept_and_not_asked_for_each_time(store: Store) -> None:
    double = Double()
    decoder = topic_decoder(store, "runs", double())
    assert {_code(decoder, encode(EVENT, 9)) for _ in range(5)} == {"unknown-schema-id"}
    assert double.asked == [9] and list(store.walk("_log")) == []
    for schema_id in range(10, 10 + 2 * MAX_UNKNOWN):
        _code(decoder, encode(EVENT, schema_id))
    double.schemas[9] = Foreign.JSON
    assert topic_decoder(store, "runs", double()).decode(_json(9)) == EVENT


def test_ids_are_those_of_a_topic_and_a_schema_is_kept_once(store: Store) -> None:
    for topic in ("runs", "others"):
        topic_decoder(store, topic, Double()()).decode(encode(EVENT, AVRO))
    assert _code(topic_decoder(store, "third"), encode(EVENT, AVRO)) == "no-registry"
    assert _code(topic_decoder(store, "runs"), _json(JSON)) == "no-registry"
    assert sorted(item.key.rpartition("/")[0] for item in store.walk("_log")) == [
        *("_log/others/schemas", "_log/runs/schemas", "_log/schemas")
    ]


def test_a_kept_schema_that_was_changed_is_not_read_with(store: Store, tmp_path: Path) -> None:
    topic_decoder(store, "runs", Double()()).decode(encode(EVENT, AVRO))
    (file,) = (tmp_path / "lake" / "_log" / "schemas").iterdir()
    file.chmod(0o600)
    file.write_text(json.dumps({"kind": "JSON"}))
    with pytest.raises(LogError) as caught:
        topic_decoder(store, "runs").decode(encode(EVENT, AVRO))
    assert caught.value.code == "digest-conflict"
