"""A real registry (Apicurio): schemas evolve, it goes away, ids are wrong, and nothing is lost."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pytest
from apicurio.registry import Apicurio
from confluent_kafka import Producer
from running import ingest, kill, start, until
from typer.testing import CliRunner

from pipeline import faultpoints
from pipeline.cli.main import app, explain
from pipeline.config import IngestConfig
from pipeline.doctor.examine import examine
from pipeline.doctor.findings import Finding
from pipeline.lake.datasets import dataset
from pipeline.lake.live import read_lake
from pipeline.lake.proof.topic import Source
from pipeline.lake.store import Store
from pipeline.lake.verify import Checks, verify
from pipeline.registry.client import open_registry
from pipeline.worker import run_once
from schemas import RunEvent, avro, encode, encode_json

JSON_SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
MAIL = "jane@example.com"
UNKNOWN_ID = 1_000_000


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def register(registry: Apicurio, tmp_path: Path) -> Callable[..., int]:
    """Registers a schema through the command line, as a file; gives its id."""

    def do(topic: str, schema: Any, suffix: str = ".avsc") -> int:
        file = tmp_path / f"schema{suffix}"
        file.write_text(json.dumps(schema))
        words = ("schemas", "register", file, "--subject", f"{topic}-value", "--json")
        found: int = json.loads(_run(*words, "--registry", registry.url))["id"]
        return found

    return do


def _run(*words: str | Path, code: int = 0) -> str:
    """What a command prints, in this process; for an error the sentence it ends with."""
    done = CliRunner().invoke(app, list(map(str, words)))
    if done.exception is None or isinstance(done.exception, SystemExit):
        assert done.exit_code == code, done.output
        return done.stdout
    assert isinstance(done.exception, Exception)
    sentence, exit_code = explain(done.exception)
    assert exit_code == code, sentence
    return sentence


def _with_fields(*fields: Any) -> dict[str, Any]:
    """The schema of a version to come."""
    return {**avro.current(), "fields": [*avro.current()["fields"], *fields]}


MOOD = {"name": "mood", "type": ["null", "string"], "default": None, "doc": "who is it of?"}
PLACE = {
    "name": "place",
    "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]},
    "default": {"city": ""},
}


def _event(n: int) -> RunEvent:
    return RunEvent(
        event_id=f"event-{n}",
        run_id="run-1",
        sequence=n,
        occurred_at=time.time_ns() // 1000,
        kind="message",
        body=json.dumps({"n": n}),
    )


def _fields(n: int) -> dict[str, Any]:
    raw = fastavro.schemaless_reader(
        io.BytesIO(encode(_event(n))[10:]), avro.readable(avro.current()), None
    )
    assert isinstance(raw, dict)
    return raw


def _framed(schema_id: int, data: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def _avro(schema: Any, n: int, **more: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, avro.readable(schema), {**_fields(n), **more})
    return out.getvalue()


def _produce(bootstrap: str, topic: str, *values: bytes, **headers: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, b"run-1", headers=list(headers.items()))
    assert producer.flush(30) == 0


def _bodies(lake: Path) -> dict[int, Any]:
    rows = dataset(read_lake(Store.open(lake)), "events").to_table().to_pylist()
    return {row["sequence"]: json.loads(row["body"]) for row in rows}


def _settings(
    bootstrap: str, topic: str, lake: Path, keys: Path, registry: Apicurio
) -> IngestConfig:
    Store.open(lake, create=True)
    return IngestConfig(
        *(bootstrap, topic, str(lake)),
        keys=str(keys),
        registry=registry.url,
        until_caught_up=True,
    )


@contextmanager
def _cut_short() -> Iterator[None]:
    """Something fails before the slice is committed."""

    def fail(point: str) -> None:
        if point == "commit.before":
            raise RuntimeError(point)

    faultpoints.install(fail)
    try:
        with pytest.raises(RuntimeError, match=r"commit\.before"):
            yield
    finally:
        faultpoints.install(None)


def test_a_schema_evolves_and_what_is_known_needs_no_registry(
    bootstrap: str,
    registry: Apicurio,
    register: Callable[..., int],
    make_topic: Callable[..., str],
    free_port: Callable[[], int],
    tmp_path: Path,
    keys: Path,
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    settings = _settings(bootstrap, topic, lake, keys, registry)
    first = register(topic, avro.current())
    (tmp_path / "run.jsonl").write_bytes(b"\n".join(encode_json(_event(n)) for n in range(3)))
    words = ("emit", tmp_path / "run.jsonl", "--topic", topic, "--bootstrap", bootstrap)
    _run(*words, "--registry", registry.url)
    run_once(settings)

    # A version with more fields: what is new is kept, and masked like anything else.
    newer = _with_fields(MOOD, PLACE)
    second = register(topic, newer)
    assert second != first
    told = {"mood": f"write to {MAIL}", "place": {"city": "Oslo"}}
    _produce(bootstrap, topic, _framed(second, _avro(newer, 3, **told)))
    # JSON Schema has the same framing; a header may name the schema instead of the value.
    as_json = register(f"{topic}-json", JSON_SCHEMA, ".json")
    in_json = json.loads(encode_json(_event(4))) | {"mood": MAIL}
    _produce(bootstrap, topic, _framed(as_json, json.dumps(in_json).encode()))
    header = {"__value_schema_id": _framed(second, b"")}
    _produce(bootstrap, topic, _avro(newer, 5, **told), **header)
    with _cut_short():
        run_once(settings)

    # A restart while the registry is away: all ids are known, also where a slice is redone.
    away = ("--registry", f"http://127.0.0.1:{free_port()}")
    _produce(bootstrap, topic, _framed(second, _avro(newer, 6, **told)))
    _produce(bootstrap, topic, _framed(first, _avro(avro.current(), 7)))
    _produce(bootstrap, topic, _framed(as_json, encode_json(_event(8))))
    report = ingest(bootstrap, topic, lake, keys, *away)
    assert (report["counts"]["events"], report["dead_letter_codes"]) == (6, {})

    bodies = _bodies(lake)
    assert sorted(bodies) == list(range(9))
    assert all(body["n"] == n for n, body in bodies.items())
    for n in (3, 5, 6):
        unknown = bodies[n]["_unknown_fields"]
        assert unknown["mood"].startswith("write to [EMAIL:") and unknown["place"]["city"] == "Oslo"
    assert bodies[4]["_unknown_fields"]["mood"].startswith("[EMAIL:")
    checks = Checks(leaks=False, topic=Source(bootstrap), processes=1)
    proved = verify(str(lake), checks)
    assert (proved.violations, proved.compared) == ((), 9)
    kept = [path.read_bytes() for path in (lake / "_log" / "schemas").iterdir()]
    assert len(kept) == 3 and not any(b"who is it of?" in text for text in kept)


def test_an_id_that_the_registry_does_not_know_is_a_dead_letter_and_can_be_retried(
    bootstrap: str,
    registry: Apicurio,
    make_topic: Callable[..., str],
    tmp_path: Path,
    keys: Path,
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    data = _avro(avro.current(), 1)
    _produce(bootstrap, topic, encode(_event(0)), _framed(UNKNOWN_ID, data), encode(_event(2)))
    run_once(_settings(bootstrap, topic, lake, keys, registry))
    assert sorted(_bodies(lake)) == [0, 2]
    dead = dataset(read_lake(Store.open(lake)), "dead_letters").to_table()
    assert dead["code"].to_pylist() == ["unknown-schema-id"]
    words = ("deadletters", "retry", "--lake", lake, "--bootstrap", bootstrap, "--keys", keys)
    told = json.loads(_run(*words, "--registry", registry.url, "--json", code=1))
    assert told == {"gone": 0, "stay": {"unknown-schema-id": 1}, "stored": 0}


@contextmanager
def _gate(port: int, to: int) -> Iterator[None]:
    """Lets through to another port of the loopback interface for as long as it is open."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opened = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(meet, "127.0.0.1", port), loop
    ).result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(opened.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_while_the_registry_is_away_an_unknown_schema_waits_and_is_no_dead_letter(
    bootstrap: str,
    registry: Apicurio,
    register: Callable[..., int],
    make_topic: Callable[..., str],
    free_port: Callable[[], int],
    tmp_path: Path,
    keys: Path,
) -> None:
    topic, lake, port = make_topic(), tmp_path / "lake", free_port()
    schema_id = register(topic, avro.current())
    _produce(bootstrap, topic, encode(_event(0)), _framed(schema_id, _avro(avro.current(), 1)))
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    process = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys),
        *("--registry", url, "--until-caught-up", "--json"),
    )
    try:
        # What stands before it is stored meanwhile.
        until(lambda: any((lake / "_log" / topic).rglob("*.commit")), "the first commit")
        assert sorted(_bodies(lake)) == [0]
        assert process.poll() is None, "it waits"
        with _gate(port, registry.port):
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        report = json.loads(out)
        assert (report["counts"]["events"], report["dead_letter_codes"]) == (2, {})
        assert report["restarts"] > 0 and "the schema registry does not answer" in err
        assert sorted(_bodies(lake)) == [0, 1]
    finally:
        if process.poll() is None:
            kill(process)


def test_an_address_without_a_registry_stops_the_start(
    bootstrap: str, registry: Apicurio, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    words = ("ingest", "--bootstrap", bootstrap, "--topic", make_topic(), "--keys", keys)
    elsewhere = f"http://127.0.0.1:{registry.port}"
    said = _run(*words, "--lake", tmp_path / "lake", "--registry", elsewhere, code=3)
    assert said.startswith("there is no schema registry at this address — check --registry")


def test_schemas_are_checked_registered_listed_and_shown(
    registry: Apicurio, register: Callable[..., int], tmp_path: Path
) -> None:
    subject, there = "checked-value", ("--registry", registry.url)
    words = ("--subject", subject, *there)
    assert "nothing is against it" in _run("schemas", "check", *words)
    assert json.loads(_run("schemas", "register", *words, "--json"))["problems"] == []
    open_registry(registry.url)._client.set_compatibility(subject, "BACKWARD")

    no_default = tmp_path / "no-default.avsc"
    no_default.write_text(json.dumps(_with_fields({"name": "mood", "type": "string"})))
    without = tmp_path / "without.avsc"
    fields = [field for field in avro.current()["fields"] if field["name"] != "run_id"]
    without.write_text(json.dumps({**avro.current(), "fields": fields}))
    for file, why in (
        (no_default, "the registry's rule for checked-value does not allow it"),
        (without, "RunEvent.run_id: is missing and has no default"),
    ):
        for command in ("check", "register"):
            assert why in _run("schemas", command, file, *words, code=1)
    register("checked", _with_fields(MOOD))

    for name in ("missing.avsc", "schema.txt"):
        said = _run("schemas", "check", tmp_path / name, *words, code=2)
        assert said.endswith("name an .avsc (Avro) or a .json (JSON Schema)")

    shown = json.loads(_run("schemas", "show", subject, *there, "--json"))
    assert (shown["version"], shown["versions"], shown["type"]) == (2, [1, 2], "AVRO")
    text = _run("schemas", "show", subject, "--version", "1", *there)
    assert json.loads(text) == avro.current()
    listed = {row["subject"]: row for row in json.loads(_run("schemas", "list", *there, "--json"))}
    assert (listed[subject]["version"], listed[subject]["is_read"]) == (2, True)
    said = _run("schemas", "show", "no-such", *there, code=2)
    assert said.startswith("the registry has no version of no-such")


def test_an_emitter_wants_its_schema_registered_first(
    bootstrap: str, registry: Apicurio, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "run.jsonl").write_bytes(encode_json(_event(0)))
    topic = make_topic()
    words = ("emit", tmp_path / "run.jsonl", "--topic", topic, "--bootstrap", bootstrap)
    said = _run(*words, "--registry", registry.url, code=3)
    assert said.endswith(f"redactory schemas register --subject {topic}-value")


def test_the_doctor_says_whether_the_registry_answers_and_what_its_schema_is(
    registry: Apicurio, register: Callable[..., int]
) -> None:
    register("examined", avro.current())
    found = _found("examined", registry.url)
    assert (found.level, "the latest of examined-value is version 1" in found.seen) == ("ok", True)
    stranger = json.dumps({"type": "record", "name": "Order", "fields": []})
    open_registry(registry.url).register("orders-value", stranger, "AVRO")
    found = _found("orders", registry.url)
    assert found.level == "warn" and "no schema of run events" in found.seen
    found = _found("orders", f"http://127.0.0.1:{registry.port}/nowhere")
    assert (found.level, found.advice.startswith("check --registry")) == ("fail", True)


def _found(topic: str, url: str) -> Finding:
    """What the doctor says of a registry."""
    found = examine(IngestConfig("", topic, "", registry=url), 1, time.time)
    (about_registry,) = (each for each in found if each.what == "registry")
    return about_registry
