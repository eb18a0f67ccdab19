"""Formats are told by content, and files are read plain or compressed."""

import gzip
from io import BytesIO
from pathlib import Path

import pytest

from pipeline.errors import InputError, UsageError
from pipeline.formats import FORMATS, Source, format_named, format_of, open_source
from pipeline.formats.base import LINE_MAX_BYTES
from schemas import RunEvent, encode_json

NOW_US = 1_772_366_400_000_000
EVENT = RunEvent(
    event_id="e", run_id="r", sequence=0, occurred_at=NOW_US, kind="message", body='{"n": 1.10}'
)
LINE = encode_json(EVENT)
HEADS = {
    "run-event": LINE,
    "tau-bench": b'[\n  {\n    "task_id": 0,\n    "traj": []}]',
    "swe-agent": b'{"environment": "main", "trajectory": [{"action": "ls", "observation": ""}]}',
    "openhands": b'[{"id": 0, "source": "user", "action": "message"}]',
    "inspect": b'{\n "version": 2,\n "eval": {"run_id": "r", "task": "t"}, "samples": []}',
    "inspect-eval": b"PK\x03\x04" + bytes(22) + b"\x13\0\0\0_journal/start.json{}",
    "langsmith": b'[{"id": "a", "trace_id": "a", "run_type": "llm", "inputs": {"task_id": 1}}]',
    "otlp-json": b'{"resourceSpans":[{"scopeSpans":[]}]}',
    "otlp-proto": b"\0\0\0\x04\x0a\x02\x0a\0",
    "vcr": b"interactions:\n- request:\n    body: null\n",
    "claude-code": b'{"type":"user","sessionId":"s","message":{}}\n',
}
PURE = HEADS | {"langsmith": HEADS["langsmith"].replace(b"task_id", b"task")}
"""The heads without another format's words in their content."""

STRANGERS = {
    "empty": b"",
    "text": b"hello",
    "some-json": b'{"a": 1}',
    "a-list": b"[1, 2]",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_gzip", [False, True], ids=["plain", "gzip"])
def test_a_file_is_known_by_its_content(name: str, is_gzip: bool, tmp_path: Path) -> None:
    path = tmp_path / "runs.dat"
    path.write_bytes(gzip.compress(HEADS[name]) if is_gzip else HEADS[name])
    found = format_of(path)
    assert found is not None and found.name == name
    assert [known for known in FORMATS.values() if known.sniff(PURE[name])] == [found]


@pytest.mark.parametrize("content", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_stranger_is_of_no_format(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.dat"
    path.write_bytes(content)
    assert format_of(path) is None


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert format_named("tau-bench").name == "tau-bench"
    with pytest.raises(UsageError) as caught:
        format_named("csv")
    assert all(name in caught.value.hint for name in ("auto", *FORMATS))


def test_run_event_lines_are_the_events_as_they_stand() -> None:
    source = Source(BytesIO(LINE + b"\n\n" + LINE), "runs.jsonl", NOW_US)
    assert list(FORMATS["run-event"].read(source)) == [EVENT, EVENT]


def test_a_line_that_is_no_event_is_named_with_its_code() -> None:
    source = Source(BytesIO(LINE + b'\n{"run_id": "canary"}\n'), "runs.jsonl", NOW_US)
    with pytest.raises(InputError) as caught:
        list(FORMATS["run-event"].read(source))
    assert str(caught.value).startswith("runs.jsonl:2: ")
    assert "not-an-event" in str(caught.value) and "canary" not in str(caught.value)


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    class Endless(BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None and 0 < size <= LINE_MAX_BYTES + 1
            return b"x" * size

    with pytest.raises(InputError, match="runs:1: the line is too long"):
        list(Source(Endless(), "runs", NOW_US).lines())


@pytest.mark.parametrize("cut", [slice(0, -6), slice(0, 14)], ids=["tail", "head"])
def test_damaged_gzip_is_an_error_that_names_the_file(cut: slice, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(LINE)[cut])
    with (
        open_source(path, NOW_US) as (source, _),
        pytest.raises(InputError, match=r"runs\.jsonl\.gz: the gzip data is damaged"),
    ):
        list(FORMATS["run-event"].read(source))
