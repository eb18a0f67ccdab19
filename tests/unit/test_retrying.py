"""Dead letters that are read again: what is an event now is there once, whatever happens."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pipeline import faultpoints
from pipeline.building import SliceBuilder
from pipeline.errors import LostPartition
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.datasets import dataset
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.layout import Bucket, new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.removal import Remover
from pipeline.lake.store import Store
from pipeline.lake.sweeping import ABANDONED_US, Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.masking import Coordinates, Masker
from pipeline.retrying import Retrier
from pipeline.slices import Message
from pipeline.state.memories import Memories
from redactors import KeyRing, load_ruleset, ruleset_document
from schemas import RunEvent, avro, encode

NOW_US = 1_790_000_000_000_000
LATER_US = NOW_US + 3_600_000_000
AT = Coordinates("runs", 0)
SAID = "calm heron 5519"


class Crash(BaseException):
    """Stands for `kill -9`."""


def _event(offset: int) -> RunEvent:
    return RunEvent(
        event_id=f"event-{offset}",
        run_id="run-1",
        sequence=offset,
        occurred_at=NOW_US,
        kind="message",
        body=json.dumps({"n": offset, "password": "not to be seen", "said": SAID}),
    )


NEXT_SCHEMA: dict[str, Any] = {
    **avro.current(),
    "fields": [
        *avro.current()["fields"],
        {"name": "mood", "type": ["null", "string"], "default": None},
    ],
}


def _of_next_version(offset: int) -> bytes:
    """A message by a producer that is ahead of us: its schema is in no history yet."""
    fields = fastavro.schemaless_reader(
        io.BytesIO(encode(_event(offset))[10:]), avro.readable(avro.current()), None
    )
    out = io.BytesIO(b"\xc3\x01" + avro.fingerprint(NEXT_SCHEMA))
    out.seek(10)
    fastavro.schemaless_writer(out, avro.readable(NEXT_SCHEMA), {**fields, "mood": "calm"})
    return out.getvalue()


@pytest.fixture
def topic() -> dict[int, Message]:
    """Of 30 messages every third is ahead of us, and two are rubbish."""
    values = {n: encode(_event(n)) if n % 3 else _of_next_version(n) for n in range(30)}
    values |= {7: b"rubbish", 20: b"{"}
    return {n: Message(n, NOW_US, b"run-1", value) for n, value in values.items()}


@pytest.fixture
def store(tmp_path: Path, masker: Masker, topic: dict[int, Message]) -> Store:
    """A lake into which the topic was read, in three slices."""
    store = Store.open(tmp_path / "lake", create=True)
    store_ruleset(store, masker.redactor.digest, ruleset_document(load_ruleset()))
    store_policy(store, masker.policy.digest, masker.policy.document)
    committer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    for start in (0, 10, 20):
        builder = SliceBuilder(start, NOW_US, 0.0, _no_memories(masker))
        for offset in range(start, start + 10):
            builder.take([topic[offset]], masker, AT)
        written = committer.write(builder.finish("topic-id", masker, AT))
        assert written is not None
        committer.commit(written)
    return store


def _no_memories(masker: Masker) -> Memories:
    return Memories(KeyRing.generate(), {})


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    """From now on we know the schema that we did not know when the lake was written."""
    known = {
        **avro.by_fingerprint(),
        avro.fingerprint(NEXT_SCHEMA): avro.readable(NEXT_SCHEMA),
    }
    monkeypatch.setattr(avro, "by_fingerprint", lambda: known)


Retry = Callable[..., Retrier]


@pytest.fixture
def retrier(store: Store, masker: Masker, topic: dict[int, Message]) -> Retry:
    def read_again(name: str, partition: int, offsets: Sequence[int]) -> Iterator[Message]:
        assert (name, partition) == ("runs", 0)
        return (topic[offset] for offset in offsets if offset in topic)

    def make(memories: Memories | None = None) -> Retrier:
        known = memories or _no_memories(masker)
        return Retrier(store, lambda topic: masker, lambda *at: known, read_again, LATER_US)

    return make


def _offsets(store: Store, table: Any) -> list[int]:
    found = dataset(read_lake(store), table).to_table(columns=["kafka_offset"])
    return sorted(found["kafka_offset"].to_pylist())


AHEAD = list(range(0, 30, 3))


def _is_proved(tmp_path: Path) -> None:
    report = verify(str(tmp_path / "lake"), Checks(leaks=False, processes=1))
    assert report.violations == ()


def _holds_all(store: Store, tmp_path: Path) -> None:
    assert _offsets(store, "events") == [n for n in range(30) if n not in (7, 20)]
    assert _offsets(store, "dead_letters") == [7, 20]
    _is_proved(tmp_path)


def test_what_can_be_read_now_becomes_an_event_and_the_rest_stays(
    store: Store, tmp_path: Path, retrier: Retry, upgraded: None
) -> None:
    report = retrier().retry()
    assert (report.stored, report.gone) == (len(AHEAD), 0)
    assert report.stay == {"unknown-encoding": 1, "invalid-json": 1}
    _holds_all(store, tmp_path)
    rows = dataset(read_lake(store), "events").to_table().to_pylist()
    (row,) = (row for row in rows if row["kafka_offset"] == 3)
    assert json.loads(row["body"])["password"] == "[PASSWORD]"
    assert json.loads(row["body"])["_unknown_fields"] == {"mood": "calm"}
    assert retrier().retry().stored == 0
    _holds_all(store, tmp_path)


def test_nothing_is_claimed_where_nothing_has_changed(
    store: Store, tmp_path: Path, retrier: Retry
) -> None:
    before = sorted((item.key, item.size_bytes) for item in store.walk(""))
    report = retrier().retry()
    assert (report.stored, report.stay["unknown-fingerprint"]) == (0, len(AHEAD))
    assert sorted((item.key, item.size_bytes) for item in store.walk("")) == before


def test_only_what_is_asked_for_is_retried(store: Store, retrier: Retry, upgraded: None) -> None:
    assert retrier().retry(topic="another").stored == 0
    assert retrier().retry(code="invalid-json").stored == 0
    assert retrier().retry(topic="runs", code="unknown-fingerprint").stored == len(AHEAD)


def test_a_record_that_is_gone_or_is_another_one_is_left_alone(
    store: Store, tmp_path: Path, retrier: Retry, upgraded: None, topic: dict[int, Message]
) -> None:
    del topic[3]
    topic[6] = topic[6]._replace(value=_of_next_version(9))  # of the same length
    report = retrier().retry()
    assert (report.stored, report.gone) == (len(AHEAD) - 2, 2)
    assert _offsets(store, "dead_letters") == [3, 6, 7, 20]
    _is_proved(tmp_path)


def test_what_a_run_has_shown_is_masked_in_what_is_read_again(
    store: Store, masker: Masker, retrier: Retry, upgraded: None
) -> None:
    shown = _no_memories(masker)
    event = replace(_event(40), body=json.dumps({"password": SAID}))
    masker.mask(Message(40, NOW_US, b"run-1", encode(event)), AT, NOW_US, shown)
    retrier(shown).retry()
    rows = dataset(read_lake(store), "events").to_table().to_pylist()
    said = {row["kafka_offset"]: json.loads(row["body"])["said"] for row in rows}
    assert said[1] == SAID, "it was read before anything was shown"
    assert said[3] != SAID


POINTS = (
    "rewrite-intent.before", "rewrite-intent.after", "tmp-write.before", "tmp-write.after",
    "flush.after", "publish.before", "publish.after", "tidy.after", "rewrite-commit.before",
    "entry-link.before", "entry-link.after", "rewrite-commit.after", "remove.after",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_and_run_again_each_message_is_there_once(
    point: str, store: Store, tmp_path: Path, retrier: Retry, upgraded: None
) -> None:
    def crash(name: str) -> None:
        if name == point:
            raise Crash

    faultpoints.install(crash)
    with pytest.raises(Crash):
        retrier().retry()
    faultpoints.install(None)
    counted = _offsets(store, "events") + _offsets(store, "dead_letters")
    assert sorted(counted) == list(range(30)), "in between, too"
    retrier().retry()
    Rewriter(store, new_claim(), LATER_US + 2 * ABANDONED_US).remove_strays()
    _holds_all(store, tmp_path)


def test_of_two_at_once_one_gives_way_and_nothing_is_doubled(
    store: Store, tmp_path: Path, retrier: Retry, upgraded: None
) -> None:
    def overtake(name: str) -> None:
        if name == "rewrite-commit.before":
            faultpoints.install(None)
            retrier().retry()

    faultpoints.install(overtake)
    with pytest.raises(LostPartition):
        retrier().retry()
    Rewriter(store, new_claim(), LATER_US).remove_strays()
    _holds_all(store, tmp_path)


def _event_bucket(store: Store) -> Bucket:
    (bucket,) = {parse_bucket(file.path) for file in read_lake(store).files["events"]}
    assert bucket is not None
    return bucket


def _remove(store: Store, bucket: Bucket, keeping: Callable[[Any], Any] | None) -> None:
    Remover(
        store,
        purpose="erase" if keeping else "sweep",
        claim=new_claim(),
        now_us=LATER_US,
        keep_in=lambda _: keeping,
        note=lambda going: None,
        with_strays=keeping is None,
    ).remove(bucket)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_that_were_moved_are_removed_like_others_and_stay_accounted_for(
    store: Store, tmp_path: Path, retrier: Retry, upgraded: None, is_compacted: bool
) -> None:
    retrier().retry()
    bucket = _event_bucket(store)
    if is_compacted:
        Rewriter(store, new_claim(), LATER_US).compact(bucket)
        _holds_all(store, tmp_path)
    _remove(store, bucket, lambda rows: rows["kafka_offset"].to_numpy() != 6)
    assert 6 not in _offsets(store, "events")
    _is_proved(tmp_path)
    _remove(store, bucket, None)
    assert _offsets(store, "events") == []
    _is_proved(tmp_path)
