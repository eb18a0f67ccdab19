"""`.eval` archives of Inspect tell what the same log in one JSON text tells."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["inspect-eval"]
NOW_US = 1_772_366_400_000_000
EVAL = {"task": "t", "created": "2026-02-27T10:00:00+00:00", "packages": {"inspect_ai": "0.3"}}
LOG = {"version": 2, "eval": EVAL, "plan": {"steps": []}}
SAMPLES = [
    {"id": n, "epoch": 1, "input": "Look.", "messages": [{"role": "user", "content": f"{n}"}]}
    for n in (1, 2)
]
FILES: Mapping[str, Any] = {
    "_journal/start.json": LOG,
    **{f"samples/{sample['id']}_epoch_1.json": sample for sample in SAMPLES},
    "summaries.json": [],
    "header.json": LOG | {"status": "success"},
}


def archive(files: Mapping[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", compression) as made:
        for name, value in files.items():
            made.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return out.getvalue()


def read(content: bytes) -> list[RunEvent]:
    assert FORMAT.sniff(content[:1000])
    return list(FORMAT.read(Source(BytesIO(content), "log.eval", NOW_US)))


def without_ids(events: list[RunEvent]) -> list[RunEvent]:
    return [replace(event, event_id="", run_id="") for event in events]


def test_an_archive_tells_what_the_log_as_json_tells() -> None:
    text = json.dumps(LOG | {"samples": SAMPLES}).encode()
    as_json = list(FORMATS["inspect"].read(Source(BytesIO(text), "log.json", NOW_US)))
    events = read(archive(FILES))
    assert without_ids(events) == without_ids(as_json)
    assert len({event.run_id for event in events}) == 2


def test_an_evaluation_that_still_runs_has_its_start_only() -> None:
    running = {name: FILES[name] for name in FILES if not name.endswith(("header.json", "s.json"))}
    assert without_ids(read(archive(running))) == without_ids(read(archive(FILES)))


def test_an_archive_of_something_else_is_none_of_ours() -> None:
    assert not FORMAT.sniff(archive({"word/document.xml": "x"}))
    assert not FORMAT.sniff(b"PK\x03\x04")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (archive(FILES)[:-40], "damaged or ends too early"),
        (archive({"samples/1_epoch_1.json": SAMPLES[0]}), "not an archive of an evaluation"),
        (archive({"header.json": {"eval": 7}}), "not an archive of an evaluation"),
        (archive({"header.json": LOG, "samples/1.json": {"messages": 1}}), "sample 0 has no"),
        (archive({"header.json": LOG, "samples/1.json": b"{"}), "not valid JSON"),
    ],
    ids=["cut", "no-header", "no-eval", "no-sample", "no-json"],
)
def test_what_is_no_log_is_refused(content: bytes, what: str) -> None:
    with pytest.raises(InputError, match=f"^log.eval: .*{what}"):
        read(content)


def test_a_damaged_member_is_refused() -> None:
    content = archive(FILES, zipfile.ZIP_STORED)
    with pytest.raises(InputError, match="damaged"):
        read(content.replace(b'"Look."', b'"Loop."', 1))


def test_an_unknown_compression_is_refused() -> None:
    content = archive({"header.json": LOG})
    deflate, zstd = (8).to_bytes(2, "little"), (93).to_bytes(2, "little")
    entry = content.index(b"PK\x01\x02")
    other = content[:8] + zstd + content[10 : entry + 10] + zstd + content[entry + 12 :]
    assert content[8:10] == content[entry + 10 : entry + 12] == deflate
    with pytest.raises(InputError, match="compressed or encrypted"):
        read(other)
