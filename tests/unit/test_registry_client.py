"""What a registry answers, and what is made of it: a schema, none, or one sentence of our own."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest

from pipeline.errors import RegistryError, UsageError
from pipeline.registry import client
from pipeline.registry.client import USER_INFO, Registry, open_registry
from schemas import Foreign, avro

GUID = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")
CANARY = "canary-5317"


class Double(ThreadingHTTPServer):
    """Answers as it is told: `answers` by path, else with a 404 of another program."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.logins: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def tell(self, path: str, status: int, **fields: object) -> None:
        self.answers[path] = status, json.dumps(fields).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Double

    def do_GET(self) -> None:
        self.server.logins.append(self.headers.get("Authorization"))
        path = self.path.partition("?")[0]
        status, body = self.server.answers.get(path, (404, CANARY.encode()))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    monkeypatch.setattr(client, "_CLIENT", {"timeout": 5, "max.retries": 0})
    monkeypatch.delenv(USER_INFO, raising=False)
    with Double() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def registry(double: Double) -> Registry:
    return open_registry(double.url)


def test_of_an_avro_schema_comes_what_reading_needs(double: Double, registry: Registry) -> None:
    text = json.dumps(avro.current())
    double.tell("/schemas/ids/7", 200, schema=text)
    double.tell(f"/schemas/guids/{GUID}", 200, schema=text, guid=str(GUID), id=7)
    assert registry.schema(7) == registry.schema(GUID) == avro.essential(avro.current())


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("JSON", "{}", Foreign.JSON),
        ("PROTOBUF", 'syntax = "proto3";', Foreign.OTHER),
        ("AVRO", "no JSON", Foreign.OTHER),
        ("AVRO", "[" * 100_000, Foreign.OTHER),
    ],
)
def test_other_schemas_are_told_by_their_kind(
    double: Double, registry: Registry, kind: str, text: str, found: Foreign
) -> None:
    double.tell("/schemas/ids/7", 200, schema=text, schemaType=kind)
    assert registry.schema(7) is found


def test_only_the_registrys_own_word_says_that_there_is_no_such_schema(
    double: Double, registry: Registry
) -> None:
    double.tell("/schemas/ids/7", 404, error_code=40403, message=CANARY)
    assert registry.schema(7) is None
    for body in (b"<html>", b"{}", json.dumps({"error_code": 404, "message": CANARY}).encode()):
        double.answers["/schemas/ids/8"] = 404, body
        with pytest.raises(RegistryError) as caught:
            registry.schema(8)
        assert caught.value.code == "registry-missing"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((401, "registry-login"), (403, "registry-login"), (405, "registry-missing")),
        *((408, "registry-away"), (429, "registry-away"), (500, "registry-away")),
        *((502, "registry-away"), (503, "registry-away"), (418, "registry-refused")),
    ],
)
def test_a_refusal_is_one_sentence_that_repeats_nothing(
    double: Double, registry: Registry, status: int, code: str
) -> None:
    double.tell("/schemas/ids/7", status, error_code=status, message=CANARY)
    with pytest.raises(RegistryError) as caught:
        registry.schema(7)
    assert caught.value.code == code and caught.value.hint
    assert CANARY not in str(caught.value) + caught.value.hint
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"text"'])
def test_an_answer_of_another_program_is_no_outage(
    double: Double, registry: Registry, body: bytes
) -> None:
    double.answers["/schemas/ids/7"] = 200, body
    with pytest.raises(RegistryError) as caught:
        registry.schema(7)
    assert caught.value.code == "registry-missing"


def test_an_outage_at_the_start_is_let_pass_and_a_wrong_address_is_not(double: Double) -> None:
    with pytest.raises(RegistryError):
        open_registry(double.url).check()
    double.tell("/schemas/types", 503)
    open_registry(double.url).check()


def test_a_login_comes_from_a_file_or_the_environment_and_is_never_shown(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.tell("/schemas/ids/7", 401, error_code=401)
    file = tmp_path / "registry.properties"
    file.write_text(f"basic.auth.user.info = agent:{CANARY}\n")
    for _ in range(2):
        with pytest.raises(RegistryError):
            open_registry(double.url, file).schema(7)
        monkeypatch.setenv(USER_INFO, f"other:{CANARY}")
    first, second = double.logins
    assert first and second and first != second


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"basic.auth.user.info={CANARY}", "basic.auth.user.info"),
        (f"ssl.ca.location=/no/such/{CANARY}", "the settings"),
        (f"no.such.setting={CANARY}", "no.such.setting"),
    ],
)
def test_a_setting_that_the_client_refuses_is_named_and_not_its_value(
    tmp_path: Path, line: str, named: str
) -> None:
    file = tmp_path / "registry.properties"
    file.write_text(line)
    with pytest.raises(UsageError) as caught:
        open_registry("http://localhost", file)
    assert named in str(caught.value) and CANARY not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8081",
        "ftp://host",
        "mock://",
        "http://",
        f"http://u:{CANARY}@h",
        "http://[",
        "http://a,x",
    ],
)
def test_an_address_is_one_of_http_and_holds_no_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_registry(url)
    assert caught.value.code == "registry-url" and CANARY not in str(caught.value)
