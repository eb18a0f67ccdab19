"""Files in the place of a topic: once each, whatever happens on the way, and on from there."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import faultpoints
from pipeline.cli import main as root
from pipeline.config import IngestConfig, SliceLimits
from pipeline.errors import InputError, LogError, PipelineError
from pipeline.formats import format_of
from pipeline.ingest import AssembleRuns, CommitSlice, WriteParquet
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet
from pipeline.lake.proof.topic import Source, against_topic
from pipeline.lake.store import Store
from pipeline.opening import open_reader
from pipeline.retrying import reader_again
from redactors import KeyRing
from schemas import RunEvent, encode_json

Row = dict[str, Any]
NOW_US = time.time_ns() // 1_000
OF_THE_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


def line(index: int, body: object = None, **fields: Any) -> bytes:
    given = {"event_id": f"event-{index}", "run_id": "run-1", "sequence": index, "kind": "message"}
    text = json.dumps({"n": index} if body is None else body)
    event = RunEvent(**{**given, "occurred_at": NOW_US, "body": text, **fields})
    return encode_json(event) + b"\n"


def turn(index: int, session: str = "s-1") -> bytes:
    message = {"content": f"turn {index}"}
    return json.dumps({"type": "user", "sessionId": session, "message": message}).encode() + b"\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ring for all tests: rules are built once for each."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    KeyRing.generate().save(path)
    return path


@pytest.fixture(scope="module")
def rotated(keys: Path) -> Path:
    """The same ring with a newer key."""
    path = keys.with_name("rotated.json")
    KeyRing.load(keys).rotated().save(path)
    return path


@pytest.fixture
def config(tmp_path: Path, keys: Path) -> IngestConfig:
    lake = tmp_path / "lake"
    Store.open(lake, create=True)
    limits = SliceLimits(records=4)
    return IngestConfig("", "", str(lake), keys=str(keys), until_caught_up=True, limits=limits)


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    faultpoints.install(None)


def take_in(config: IngestConfig, *paths: Path) -> list[Row]:
    """Reads files as a worker does, one slice after another; gives all rows of the lake."""
    files = []
    for path in paths:
        kind = format_of(path)
        assert kind is not None
        files.append((str(path), kind.name))
    config = replace(config, files=tuple(files))
    steps = AssembleRuns(config), WriteParquet(config.lake), CommitSlice(config)
    for step in steps:
        step.setup()
    assemble, write, commit = steps
    reader = open_reader(config)
    try:
        for masked in reader.slices:
            for assembled in assemble.process(masked):
                for written in write.process(assembled):
                    list(commit.process(written))
    finally:
        reader.close()
        commit.teardown()
    return rows(config)


def rows(config: IngestConfig, table: str = "events") -> list[Row]:
    store = Store.open(config.lake)
    found = read_lake(store).files[table]
    every = [row for file in found for row in from_parquet(store.get(file.path)).to_pylist()]
    return sorted(every, key=lambda row: [row[name] for name in OF_THE_PLACE])


def numbers(found: list[Row]) -> list[int]:
    return [json.loads(row["body"])["n"] for row in found]


def test_a_file_that_was_read_adds_nothing_and_one_that_grew_only_the_rest(
    config: IngestConfig, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"".join(map(line, range(10))))
    first = take_in(config, path)
    assert numbers(first) == list(range(10))
    assert [row["kafka_offset"] for row in first] == list(range(10))
    assert take_in(config, path) == first

    with path.open("ab") as file:
        file.writelines(map(line, range(10, 13)))
    grown = take_in(config, path)
    assert grown[:10] == first and numbers(grown) == list(range(13))
    assert len({row["kafka_topic"] for row in grown}) == 1
    assert grown[0]["kafka_topic"].startswith("runs.jsonl-")


def test_where_else_a_file_lies_does_not_matter_but_how_it_begins(
    config: IngestConfig, tmp_path: Path
) -> None:
    here, there = tmp_path / "a" / "runs.jsonl", tmp_path / "b" / "runs.jsonl"
    here.parent.mkdir(), there.parent.mkdir()
    here.write_bytes(line(0) + line(1))
    there.write_bytes(line(0) + line(1) + line(2))
    assert numbers(take_in(config, here, there)) == [0, 1, 2]
    there.write_bytes(line(7) + line(8))
    assert sorted(numbers(take_in(config, there))) == [0, 1, 2, 7, 8]


def test_the_time_of_the_import_is_that_of_the_slice(config: IngestConfig, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(map(turn, range(6))))
    found = take_in(config, path)
    assert len({row["ingested_at"] for row in found}) > 1
    for row in found:  # these turns have no time of their own
        assert row["captured_at"] == row["ingested_at"] == row["occurred_at"]


POINTS = [
    point
    for point in faultpoints.POINTS
    if not point.startswith(("offset-commit", "tidy", "read.after", "redact"))
]


PASSED_ONCE = ("read.before", "claim.before", "claim.after")


class Killed(BaseException):
    """Nothing of ours catches this."""


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_goes_on_without_a_loss_or_a_double(
    point: str, config: IngestConfig, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(map(turn, range(6))))
    nth = 1 if point in PASSED_ONCE else 2  # the second slice, where each passes it
    passed = 0

    def die(at: str) -> None:
        nonlocal passed
        passed += at == point
        if at == point and passed == nth:
            raise Killed

    faultpoints.install(die)
    with pytest.raises(Killed):
        take_in(config, path)
    faultpoints.install(None)
    found = take_in(config, path)
    assert [row["kafka_offset"] for row in found] == list(range(len(found)))
    texts = [json.loads(row["body"]).get("message") for row in found]
    assert [text["content"] for text in texts if text] == [f"turn {n}" for n in range(6)]
    assert take_in(config, path) == found
    for row in found:
        assert row["captured_at"] == row["ingested_at"]


def test_a_file_that_changed_below_what_was_read_is_refused(
    config: IngestConfig, tmp_path: Path
) -> None:
    path, other = tmp_path / "runs.jsonl", tmp_path / "others.jsonl"
    path.write_bytes(b"".join(map(line, range(6))))
    found = take_in(config, path)
    other.write_bytes(line(0))
    for changed in (
        line(0) + line(1, {"n": "other"}) + b"".join(map(line, range(2, 9))),
        b"".join(map(line, range(3))),
    ):
        path.write_bytes(changed)
        with pytest.raises(InputError) as caught:
            take_in(config, path, other)
        assert caught.value.code == "file-changed"
        assert len(rows(config)) == len(found) + 1  # the other file was read all the same


def test_a_line_that_cannot_be_read_ends_its_file_and_no_other(
    config: IngestConfig, tmp_path: Path
) -> None:
    bad, good = tmp_path / "bad.jsonl", tmp_path / "good.jsonl"
    bad.write_bytes(line(0) + line(1) + b'{"event_id": "cut')
    good.write_bytes(line(5))
    with pytest.raises(InputError, match=r"bad\.jsonl:3: "):
        take_in(config, bad, good)
    assert sorted(numbers(rows(config))) == [0, 1, 5]
    bad.write_bytes(line(0) + line(1) + line(2))
    assert sorted(numbers(take_in(config, bad, good))) == [0, 1, 2, 5]


def test_after_a_new_key_a_file_is_still_known(
    config: IngestConfig, rotated: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(line(0) + line(1))
    take_in(config, path)
    path.write_bytes(line(0) + line(1) + line(2))
    found = take_in(replace(config, keys=str(rotated)), path)
    assert numbers(found) == [0, 1, 2]
    assert len({row["kafka_topic"] for row in found}) == 1
    assert len({row["key_id"] for row in found}) == 2

    path.write_bytes(line(0) + line(1) + line(2) + line(3))
    with pytest.raises(LogError) as caught:  # the last entry is under the newer key
        take_in(config, path)
    assert caught.value.code == "key-gone"


def test_a_name_that_may_not_be_shown_is_not(config: IngestConfig, tmp_path: Path) -> None:
    secret = "AKI" + "A" + "Q3EGRZ7XUM5TBWVN"
    for number, name in enumerate((f"{secret}.jsonl", "jane doe@home.jsonl", "x" * 150)):
        path = tmp_path / name
        path.write_bytes(line(number))
        take_in(config, path)
    topics = {row["kafka_topic"] for row in rows(config)}
    assert len(topics) == 3
    assert all(topic.startswith("file-") and len(topic) < 30 for topic in topics)


def test_an_event_that_no_record_can_hold_is_a_dead_letter(
    config: IngestConfig, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    huge = {"type": "user", "sessionId": "s-1", "message": {"content": "x" * 5_000_000}}
    path.write_bytes(turn(0) + json.dumps(huge).encode() + b"\n" + turn(2))
    found = take_in(config, path)
    (letter,) = rows(config, "dead_letters")
    assert letter["code"] == "too-large" and letter["length_bytes"] > 5_000_000
    offsets = [row["kafka_offset"] for row in found] + [letter["kafka_offset"]]
    assert sorted(offsets) == list(range(len(found) + 1))


def test_a_slice_that_was_given_up_does_not_bar_the_file(
    config: IngestConfig, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(line(0) + line(1))

    def die(at: str) -> None:
        if at == "publish.before":
            raise Killed

    faultpoints.install(die)
    with pytest.raises(Killed):
        take_in(config, path)
    faultpoints.install(None)
    store = Store.open(config.lake)
    (topic,) = {key.split("/")[1] for key in _intents(store)}
    PartitionLog(store, topic, 0).supersede("a test", "c" * 32)
    assert numbers(take_in(config, path)) == [0, 1]


def _intents(store: Store) -> list[str]:
    return [item.key for item in store.walk("_log") if item.key.endswith(".intent")]


def test_files_of_one_name_go_to_one_worker(config: IngestConfig) -> None:
    paths = ("a/x.jsonl", "b/y.jsonl", "c/x.jsonl", "d/z.jsonl", "e/y.jsonl")
    shared = replace(config, files=tuple((path, "run-event") for path in paths))
    shares = [[path for path, _ in shared.share(n, 2).own_files] for n in range(2)]
    assert shares == [["a/x.jsonl", "c/x.jsonl"], ["b/y.jsonl", "d/z.jsonl", "e/y.jsonl"]]


def test_what_looks_into_topics_again_leaves_files_out(
    config: IngestConfig, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(line(0))
    (row,) = take_in(config, path)
    store, nowhere = Store.open(config.lake), "127.0.0.1:1"
    assert list(against_topic(read_lake(store), Source(nowhere))) == []
    again = reader_again(store, replace(config, bootstrap=nowhere))
    assert list(again(row["kafka_topic"], 0, [0])) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--topic", "t"], "no-source"),
        (["some.jsonl"], "no-source"),
        (["--from", "some.jsonl", "--topic", "t"], "two-sources"),
        (["--from", "some.jsonl", "--delete-consumed"], "two-sources"),
        (["--from", "some.jsonl", "--format", "csv"], "unknown-format"),
        (["--from", "not-there.jsonl"], "input-missing"),
    ],
)
def test_one_source_is_named_or_the_ingest_does_not_start(
    words: list[str], code: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(root.app, ["ingest", "--lake", str(tmp_path / "lake"), *words])
    assert isinstance(done.exception, PipelineError) and done.exception.code == code
    assert not (tmp_path / "lake").exists()
