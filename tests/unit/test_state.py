"""The open-run state: documents, the chain that leads to them, and the memories of runs."""

import pytest
from obstore.store import MemoryStore

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.entries import digest
from pipeline.lake.store import Store
from pipeline.slices import StateChange
from pipeline.state import memories
from pipeline.state.chain import read_chain
from pipeline.state.document import MEMORY, Document, Entry, decode_document, encode_document
from pipeline.state.memories import Memories
from pipeline.state.open_runs import MAX_DOCUMENTS, OpenRuns, memory_entries
from redactors import KeyRing, KeyRingError, Redactor, load_ruleset

HOUR_US = 3_600_000_000


@pytest.fixture
def store() -> Store:
    return Store(MemoryStore(), "memory")


def entry(run: str, payload: bytes | None = b"folded", *, seen_us: int = 1) -> Entry:
    return Entry(run, 1, seen_us, payload)


def write(store: Store, number: int, change: StateChange) -> str:
    """Keeps a document as the commit protocol does; gives its digest."""
    name = digest(change.document)
    store.put_if_absent(layout.state_key("runs", 0, number, name), change.document)
    return name


def read(store: Store, last: str | None) -> OpenRuns:
    return OpenRuns(read_chain(store, "runs", 0, last))


def listed(open_runs: OpenRuns) -> list[tuple[str, int]]:
    return [(each.run_id, each.seen_us) for each in open_runs.oldest()]


def test_a_document_reads_back_as_it_was_written() -> None:
    document = Document(
        "ab" * 32,
        5,
        (Entry("run-1", MEMORY, 7, b"\x00\xff"), Entry("run-2", MEMORY, 0, None)),
        (Entry("run-1", 2, 7, b"", 99),),
    )
    data = encode_document(document)
    assert decode_document(data) == document
    assert encode_document(decode_document(data)) == data
    assert decode_document(data, memories_only=True).attempts == ()


def test_a_damaged_document_is_an_error_and_not_an_empty_state() -> None:
    data = encode_document(Document("", 1, (), (entry("run-1"),)))
    for broken in (b"", b"no document", data[: len(data) // 2]):
        with pytest.raises(LogError) as error:
            decode_document(broken)
        assert error.value.code == "state-damaged"


def test_a_restart_finds_what_the_last_commit_left_in_the_same_order(store: Store) -> None:
    running = OpenRuns()
    last = ""
    for number, runs in enumerate(["ab", "c", "a", "bd", "-c"], start=1):
        for run in runs.removeprefix("-"):
            if runs.startswith("-"):
                running.drop(run, 1)
            else:
                running.put(entry(run, seen_us=number))
        last = write(store, number, running.take_change(number))
        assert listed(read(store, last)) == listed(running)
    assert listed(running) == [("a", 3), ("b", 4), ("d", 4)]


def test_a_change_holds_only_what_changed(store: Store) -> None:
    running = OpenRuns()
    for index in range(50):
        running.put(entry(f"run-{index}"))
    first = running.take_change(1)
    running.put(entry("run-7", b"more"))
    second = running.take_change(2)
    assert (first.previous, second.previous) == ("", digest(first.document))
    assert decode_document(second.document).attempts == (entry("run-7", b"more"),)
    assert running.take_change(3) == StateChange()


def test_the_chain_is_bounded_and_a_base_stands_alone(store: Store) -> None:
    running = OpenRuns()
    for number in range(1, 3 * MAX_DOCUMENTS):
        running.put(entry("run", seen_us=number))
        last = write(store, number, running.take_change(number))
        chain = read_chain(store, "runs", 0, last)
        assert len(chain) <= MAX_DOCUMENTS
        assert chain[0].document.previous == ""


def test_a_missing_or_changed_document_stops_the_start(store: Store) -> None:
    running = OpenRuns()
    for number in (1, 2):
        running.put(entry("run", seen_us=number))
        last = write(store, number, running.take_change(number))
    (first,) = (item.key for item in store.walk(layout.STATE) if "000000000001-" in item.key)
    store.delete(first)
    with pytest.raises(LogError, match="missing"):
        read(store, last)
    store.put_if_absent(first, b"something else")
    with pytest.raises(LogError, match="changed"):
        read(store, last)


def test_old_state_is_stale_once_content_in_it_must_go(store: Store) -> None:
    running = OpenRuns()
    running.put(Entry("run", 1, 1, b"content", deadline_us=5 * HOUR_US))
    last = write(store, 1, running.take_change(1))
    again = read(store, last)
    for each in (running, again):
        assert not each.is_stale(HOUR_US, 5 * HOUR_US, 24 * HOUR_US)
        assert each.is_stale(4 * HOUR_US, 5 * HOUR_US + 1, 24 * HOUR_US)
    again.rewrite(Entry("run", 1, 1, b"without"))
    change = again.take_change(4 * HOUR_US, as_base=True)
    assert b"content" not in change.document and change.previous == ""
    assert not again.is_stale(4 * HOUR_US, 5 * HOUR_US + 1, 24 * HOUR_US)


def test_what_is_gone_from_the_state_goes_from_the_documents_after_a_time(store: Store) -> None:
    running = OpenRuns()
    running.put(entry("run"))
    running.take_change(1)
    assert not running.is_stale(1 + 24 * HOUR_US, 0, 24 * HOUR_US), "a base alone holds no more"
    running.drop("run", 1)
    running.take_change(2)
    assert not running.is_stale(23 * HOUR_US, 0, 24 * HOUR_US)
    assert running.is_stale(1 + 24 * HOUR_US, 0, 24 * HOUR_US)


@pytest.fixture(scope="module")
def redactor_keys() -> tuple[Redactor, KeyRing]:
    keys = KeyRing.generate()
    return Redactor(load_ruleset(), keys), keys


def show(redactor: Redactor, known: Memories, run: str, body: str, now_us: int = 1) -> str:
    memory = known.of(run)
    text = redactor.redact_json(body, memory).text
    known.keep(run, memory, now_us)
    return text


FIELD = '{"full_name": "Ottoline Quist"}'
PROSE = '{"text": "ask Ottoline Quist about it"}'


def test_a_run_remembers_what_a_field_showed_and_another_run_does_not(
    redactor_keys: tuple[Redactor, KeyRing],
) -> None:
    redactor, keys = redactor_keys
    known = Memories(keys, {})
    assert "Quist" in show(redactor, known, "run-1", PROSE)
    assert "Quist" not in show(redactor, known, "run-1", FIELD)
    assert "Quist" not in show(redactor, known, "run-1", PROSE)
    assert "Quist" in show(redactor, known, "run-2", PROSE)


def test_a_memory_survives_a_restart_sealed(redactor_keys: tuple[Redactor, KeyRing]) -> None:
    redactor, keys = redactor_keys
    known = Memories(keys, {})
    show(redactor, known, "run-1", FIELD)
    document = known.take_change(1)
    assert b"Quist" not in document
    (kept,) = decode_document(document).memories
    assert b"Quist" not in (kept.payload or b"")
    again = Memories(keys, {"run-1": kept})
    assert "Quist" not in show(redactor, again, "run-1", PROSE)
    with pytest.raises(KeyRingError):
        Memories(KeyRing.generate(), {"run-1": kept}).of("run-1")


def test_a_run_that_shows_nothing_leaves_no_trace(redactor_keys: tuple[Redactor, KeyRing]) -> None:
    redactor, keys = redactor_keys
    known = Memories(keys, {})
    show(redactor, known, "run-1", PROSE)
    assert known.take_change(1) == b""


def test_a_run_that_is_over_is_forgotten(redactor_keys: tuple[Redactor, KeyRing]) -> None:
    redactor, keys = redactor_keys
    known = Memories(keys, {})
    show(redactor, known, "run-1", FIELD)
    known.take_change(1)
    known.forget("run-1")
    assert "Quist" in show(redactor, known, "run-1", PROSE)
    assert decode_document(known.take_change(2)).memories == (Entry("run-1", MEMORY, 0, None),)


def test_runs_of_which_nothing_comes_are_forgotten_in_time(
    redactor_keys: tuple[Redactor, KeyRing],
) -> None:
    redactor, keys = redactor_keys
    known = Memories(keys, {})
    show(redactor, known, "early", FIELD, now_us=1)
    show(redactor, known, "late", FIELD, now_us=9)
    known.forget_before(1)
    assert not known.of("early") and known.of("late")


def test_past_the_bound_the_run_that_was_seen_least_recently_is_forgotten(
    redactor_keys: tuple[Redactor, KeyRing], monkeypatch: pytest.MonkeyPatch
) -> None:
    redactor, keys = redactor_keys
    monkeypatch.setattr(memories, "MAX_RUNS", 3)
    known = Memories(keys, {})
    for run in ("a", "b", "c"):
        show(redactor, known, run, FIELD)
    show(redactor, known, "a", PROSE)
    show(redactor, known, "d", FIELD)
    assert [bool(known.of(run)) for run in "abcd"] == [True, False, True, True]


def test_memories_that_are_closed_for_a_while_open_again_as_they_were(
    redactor_keys: tuple[Redactor, KeyRing], monkeypatch: pytest.MonkeyPatch
) -> None:
    redactor, keys = redactor_keys
    monkeypatch.setattr(memories, "MAX_OPENED", 1)
    known, wide = Memories(keys, {}), Memories(keys, {})
    for run in ("a", "b", "a", "c", "b", "a"):
        show(redactor, known, run, FIELD.replace("Quist", f"Quist{run}"))
    monkeypatch.setattr(memories, "MAX_OPENED", 256)
    for run in ("a", "b", "a", "c", "b", "a"):
        show(redactor, wide, run, FIELD.replace("Quist", f"Quist{run}"))
    assert known.take_change(1) == wide.take_change(1)
    assert memory_entries(()) == {}
