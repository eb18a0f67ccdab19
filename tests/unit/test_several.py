"""Records that hold several events: each is in the lake once, whatever becomes of it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lake_samples import sweep
from redaction_samples import DENSE

from pipeline import faultpoints
from pipeline.assemble import Assembler
from pipeline.building import SliceBuilder
from pipeline.errors import LogError
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.entries import Commit, decode, encode
from pipeline.lake.layout import new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.query import query
from pipeline.lake.recovery import with_recovered_rows
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter, crowded_buckets
from pipeline.lake.verify import Checks, verify
from pipeline.masking import Coordinates, Masker
from pipeline.records.capture import text_digest
from pipeline.retention.policy import Policy, load_policy
from pipeline.retention.shorten import Shortener
from pipeline.retrying import Retrier
from pipeline.review.rescrub.run import Rescrubber
from pipeline.slices import FURTHER, UNRECOVERED, Gap, MaskedSlice, Message
from pipeline.state.memories import Memories
from pipeline.unpacking import unpacked
from redactors import KeyRing, Redactor, load_ruleset, ruleset_digest, ruleset_document

NOW_US = 1_790_000_000_000_000
HOUR_US = 3_600_000_000
ALL_ENDED_US = 4_000_000_000_000_000
AT = Coordinates("spans", 0)
JSON = "otlp-json"
RECORDS, SPANS = 6, 3

POINTS = (
    "rewrite-intent.after", "tmp-write.after", "publish.after", "rewrite-commit.before",
    "rewrite-commit.after", "remove.after",
)  # fmt: skip


class Crash(BaseException):
    """Stands for `kill -9`."""


def span(number: int, parent: str = "", **given: Any) -> dict[str, Any]:
    at_ns = (NOW_US + number) * 1_000
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": f"step-{number}",
        "startTimeUnixNano": str(at_ns),
        "endTimeUnixNano": str(at_ns + 500),
        **given,
    }


def request(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def records() -> list[bytes]:
    """One trace in several records; its root, which ends it, comes with the last."""
    root = f"{RECORDS * SPANS - 1:016x}"
    spans = [span(n, "" if f"{n:016x}" == root else root) for n in range(RECORDS * SPANS)]
    return [request(*spans[at : at + SPANS]) for at in range(0, len(spans), SPANS)]


@pytest.fixture
def store(tmp_path: Path, masker: Masker) -> Store:
    store = Store.open(tmp_path / "lake", create=True)
    store_ruleset(store, masker.redactor.digest, ruleset_document(load_ruleset()))
    store_policy(store, masker.policy.digest, masker.policy.document)
    return store


def raw(offset: int, value: bytes) -> Message:
    return Message(offset, NOW_US, None, value)


def sliced(
    masker: Masker, values: Sequence[bytes], start: int, end: int, encoding: str = JSON
) -> MaskedSlice:
    """Records `[start, end)`, each at the offset that is its index, as a masked slice."""
    builder = SliceBuilder(start, NOW_US, 0.0, Memories(KeyRing.generate(), {}))
    for offset in range(start, end):
        builder.take(unpacked(raw(offset, values[offset]), encoding, "spans", 0), masker, AT)
    return builder.finish("topic-id", masker, AT, encoding)


def ingest(
    store: Store, masker: Masker, values: Sequence[bytes], cuts: Sequence[int], encoding: str = JSON
) -> None:
    """All records in slices that end at `cuts`."""
    assembler = Assembler(store, 24 * HOUR_US)
    committer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    for start, end in zip([0, *cuts], cuts, strict=False):
        assembled = assembler.assemble(sliced(masker, values, start, end, encoding))
        assert assembled is not None
        written = committer.write(assembled)
        assert written is not None
        committer.commit(written)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return list(query(read_lake(store), sql).rows)


def found(store: Store) -> list[str]:
    """What each violation of the proof is."""
    report = verify(str(store.location), Checks(leaks=False, processes=1))
    return [violation.code for violation in report.violations]


NAMES = "SELECT name FROM stored_events WHERE kind_name = 'otel.span' ORDER BY sequence"
EVERY = [(f"step-{number}",) for number in range(RECORDS * SPANS)]
RUN = (
    "SELECT status, events, doubled, holes, identity.first_sequence, steps.others, complete "
    "FROM runs ORDER BY version DESC LIMIT 1"
)


@pytest.mark.parametrize("cuts", [[6], [1, 6], [2, 3, 4, 6], [1, 2, 3, 4, 5, 6]])
def test_however_it_is_cut_each_event_is_there_once(
    store: Store, masker: Masker, cuts: list[int]
) -> None:
    ingest(store, masker, records(), cuts)
    assert rows(store, NAMES) == EVERY
    places = "SELECT count(*), count(DISTINCT (kafka_offset, record_index)) FROM events"
    # Each record has a resource, and the last one the root with what it declares.
    events = RECORDS * SPANS + RECORDS + 8
    assert rows(store, places) == [(events, events)]
    assert rows(store, RUN) == [("completed", events, 0, 0, None, RECORDS * SPANS, False)]
    assert found(store) == []


def test_what_is_missing_or_there_twice_is_found(store: Store, masker: Masker) -> None:
    ingest(store, masker, records(), [3, 6])
    log = PartitionLog(store, "spans", 0)
    last, _ = log.commit_at(2)
    counts = {**last.counts, FURTHER: last.further + 1}
    path = Path(store.location) / "_log/spans/0"
    (entry,) = path.glob("*2.commit")
    whole = entry.read_bytes()
    entry.chmod(0o600)
    entry.write_bytes(encode(replace(last, counts=counts)))
    assert "offset-unaccounted" in found(store)
    entry.write_bytes(whole)
    assert found(store) == []
    (file,) = (each for each in last.files if each.table == "events")
    other = Path(store.location) / file.path
    again = encode(replace(last, files=(*last.files, replace(file, path=file.path + "x"))))
    Path(f"{other}x").write_bytes(other.read_bytes())
    entry.write_bytes(again)
    assert "offset-twice" in found(store)


def test_an_older_version_is_told_that_it_would_misunderstand(store: Store, masker: Masker) -> None:
    ingest(store, masker, records(), [6])
    commit, document = PartitionLog(store, "spans", 0).commit_at(1)
    assert (commit.format, commit.encoding) == (2, JSON)
    newer = document.replace(b'"format":2', b'"format":3')
    with pytest.raises(LogError, match="newer version"):
        decode(Commit, newer)


def test_what_was_sent_again_is_shown_once(store: Store, masker: Masker) -> None:
    """Also where it comes again with others."""
    values, root = records(), f"{RECORDS * SPANS - 1:016x}"
    mixed = request(span(0, root), span(1, root), span(0, root), span(90, root))
    ingest(store, masker, [values[0], *values, mixed], [2, 8])
    once = NAMES.replace("stored_events", "events")
    assert len(rows(store, NAMES)) == len(EVERY) + SPANS + 4
    assert rows(store, once) == [*EVERY, ("step-90",)]
    assert rows(store, "SELECT doubled FROM runs ORDER BY version DESC LIMIT 1") == [(SPANS + 3,)]
    for bucket in crowded_buckets(read_lake(store), 2):
        Rewriter(store, new_claim(), NOW_US).compact(bucket)
    assert found(store) == []
    assert cut_all(store)
    assert rows(store, once) == [*EVERY, ("step-90",)]
    assert found(store) == []


def test_what_comes_twice_in_one_record_is_shown_once(store: Store, masker: Masker) -> None:
    ingest(store, masker, [request(span(0, "f" * 16), span(1, "f" * 16), span(0, "f" * 16))], [1])
    once = NAMES.replace("stored_events", "events")
    assert rows(store, NAMES) == [("step-0",), ("step-0",), ("step-1",)]
    assert rows(store, once) == [("step-0",), ("step-1",)]


@pytest.fixture
def retry(store: Store, masker: Masker) -> Callable[..., Retrier]:
    def make(values: Sequence[bytes], encoding: str) -> Retrier:
        def again(topic: str, partition: int, offsets: Sequence[int]) -> Iterator[Message]:
            for offset in offsets:
                yield from unpacked(raw(offset, values[offset]), encoding, topic, partition)

        memories = Memories(KeyRing.generate(), {})
        return Retrier(store, lambda topic: masker, lambda *at: memories, again, NOW_US + HOUR_US)

    return make


def sweep_all(store: Store) -> None:
    files = (file for files in read_lake(store).files.values() for file in files)
    sweep(store, filter(None, {parse_bucket(file.path) for file in files}), ALL_ENDED_US)


@pytest.mark.parametrize("point", [*POINTS, None])
def test_a_dead_letter_that_holds_several_events_becomes_all_of_them(
    store: Store, masker: Masker, retry: Callable[..., Retrier], point: str | None
) -> None:
    values = [*records(), b"{"]
    ingest(store, masker, values, [4, 7], encoding="")
    assert rows(store, "SELECT count(*) FROM dead_letters") == [(7,)]

    def crash(name: str) -> None:
        if name == point:
            raise Crash

    faultpoints.install(crash if point else None)
    if point:
        with pytest.raises(Crash):
            retry(values, JSON).retry()
        faultpoints.install(None)
        assert len(rows(store, NAMES)) in (0, len(EVERY))
    retry(values, JSON).retry()
    assert rows(store, NAMES) == EVERY
    assert rows(store, "SELECT kafka_offset, record_index FROM dead_letters") == [(6, None)]
    Rewriter(store, new_claim(), NOW_US + 10 * 24 * HOUR_US).remove_strays()
    assert found(store) == []
    assert cut_all(store)
    assert found(store) == []
    sweep_all(store)
    assert rows(store, NAMES) == []
    assert found(store) == []


def test_one_event_of_a_record_that_cannot_be_examined_is_a_dead_letter_of_its_own(
    store: Store, masker: Masker, retry: Callable[..., Retrier], tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(DENSE)
    rules = load_ruleset(tmp_path / "rules.yaml")
    strict = Masker(Redactor(rules, KeyRing.generate()), masker.policy)
    store_ruleset(store, strict.redactor.digest, ruleset_document(rules))
    said = [{"key": "said", "value": {"stringValue": "q " * 20_000}}]
    values = [request(span(0, "f" * 16), span(1, "f" * 16, attributes=said), {"name": "none"})]
    ingest(store, strict, values, [1])
    codes = rows(store, "SELECT code, record_index, record_events FROM dead_letters ORDER BY 2")
    assert codes == [("too-dense", 2, 4), ("not-otlp", 3, 4)]
    assert rows(store, "SELECT DISTINCT length_bytes FROM dead_letters") == [(len(values[0]),)]
    assert rows(store, NAMES) == [("step-0",)]
    assert found(store) == []
    report = retry(values, JSON).retry()
    assert (report.stored, report.stay) == (1, {"not-otlp": 1})
    assert rows(store, NAMES) == [("step-0",), ("step-1",)]
    assert rows(store, "SELECT record_index FROM dead_letters") == [(3,)]
    assert found(store) == []


def test_a_record_of_which_a_part_was_published_is_recovered_and_the_rest_declared(
    store: Store, masker: Masker
) -> None:
    """The topic lost it before its slice was redone; one bucket's file had been published."""
    later = [span(5, "f" * 16, startTimeUnixNano=str((NOW_US - 40 * HOUR_US) * 1_000))]
    values = [request(span(0, "f" * 16), *later), *records()[1:2]]
    masked = sliced(masker, values, 0, 2)
    assert len(masked.parts) == 2  # they go at different times
    part = masked.parts[1]
    committer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    committer.write(replace(masked, parts=(part,)))
    builder = SliceBuilder(0, NOW_US, 0.0, Memories(KeyRing.generate(), {}))
    builder.skip_to(1, "lost-before-redo")
    builder.take(unpacked(raw(1, values[1]), JSON, "spans", 0), masker, AT)
    redone = builder.finish("topic-id", masker, AT, JSON)
    recovered = with_recovered_rows(store, redone, 1).header
    lost = [row for row in part.rows.to_pylist() if row["kafka_offset"] == 0]
    assert 0 < len(lost) < 4
    assert recovered.counts[UNRECOVERED] == lost[0]["record_events"] - len(lost)
    assert recovered.gaps == ()
    assert redone.header.gaps == (Gap(0, 1, "lost-before-redo"),)
    assert recovered.counts["messages"] == 2


def two_runs(age_us: int = 0) -> bytes:
    """Two traces in one record, each of a resource of its own, the second so much older."""
    old_ns = str((NOW_US - age_us) * 1_000)
    older = span(8, traceId="cd" * 16, startTimeUnixNano=old_ns, endTimeUnixNano=old_ns)

    def of(host: str, given: dict[str, Any]) -> dict[str, Any]:
        note = {"key": "host.note", "value": {"stringValue": f"a zebra on {host}"}}
        return {"resource": {"attributes": [note]}, "scopeSpans": [{"spans": [given]}]}

    return json.dumps({"resourceSpans": [of("one", span(0)), of("two", older)]}).encode()


def test_a_record_of_a_run_goes_with_its_own_events_not_with_their_neighbours(
    store: Store, masker: Masker
) -> None:
    day_us = 24 * HOUR_US
    ingest(store, masker, [two_runs(20 * day_us)], [1])
    classes = {"default": {"lifetime": "25d", "bucket": "day"}}
    wanted = Policy.model_validate({"default": "default", "classes": classes})
    Shortener(store, new_claim(), "tester", lambda: NOW_US, wanted).shorten("sooner")
    ends = rows(store, "SELECT run_id, epoch_us(deadline) FROM runs ORDER BY run_id")
    assert ends == [("ab" * 16, NOW_US + 25 * day_us), ("cd" * 16, NOW_US + 5 * day_us)]
    assert found(store) == []


def test_after_a_rescrub_each_quotation_is_of_its_own_event(store: Store, tmp_path: Path) -> None:
    keys = KeyRing.generate()
    old = load_ruleset()
    store_ruleset(store, ruleset_digest(old), ruleset_document(old))
    ingest(store, Masker(Redactor(old, keys), load_policy()), [two_runs()], [1])
    (tmp_path / "rules.yaml").write_text(DENSE.replace("'q'", "'zebra'"))
    new = load_ruleset(tmp_path / "rules.yaml")
    clock = iter(range(NOW_US, NOW_US + 1_000))
    Rescrubber(store, new_claim(), "tester", lambda: next(clock), new, keys).rescrub("stricter")
    said = dict(rows(store, "SELECT event_id, body FROM events"))
    runs = "SELECT environment.evidence.event_id, environment.evidence.digest FROM runs"
    quoted = rows(store, runs)
    assert len(quoted) == len({event_id for event_id, _ in quoted}) == 2
    for event_id, quoted_digest in quoted:
        assert "zebra" not in said[event_id]
        assert quoted_digest == text_digest(said[event_id])
    assert found(store) == []
