"""The harness's own check sees a loss, a double, a change and a leak, each planted on purpose."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from crash.canaries import Search
from crash.evidence import Place, Verdict, judge
from crash.traffic import Kind, Sent

from pipeline.building import SliceBuilder
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from pipeline.masking import Coordinates, Decoded, MaskedEvent, Masker, Result
from pipeline.retention.policy import load_policy
from pipeline.slices import Message
from pipeline.state.memories import Memories
from redactors import KeyRing, Redactor, load_or_create_keys, load_ruleset, ruleset_document
from schemas import RunEvent, encode

NOW_US = 1_790_000_000_000_000
CANARY = "-".join(["teal", "godwit", "40917"])

Results = dict[int, Result]


class Changed(Masker):
    """A masker that makes of each message what it was told to."""

    def __init__(self, masker: Masker, results: Results) -> None:
        super().__init__(masker.redactor, masker.policy)
        self._results = results

    # The rest of the arguments is what a masker needs, and this one needs nothing.
    def take(self, messages: Sequence[Decoded], *_: object) -> list[Result]:
        return [self._results[each.message.offset] for each in messages]


class Ingested:
    """A lake of ten messages; what a sound ingest makes of them may be tampered with before."""

    def __init__(self, folder: Path, keys: Path, masker: Masker) -> None:
        self.lake, self.work = folder / "lake", folder / "work"
        self.work.mkdir()
        self.keys, self.masker = keys, masker
        self.sent: dict[Place, Sent] = {}
        self.results: Results = dict(self._mask())

    def _mask(self) -> Iterator[tuple[int, Result]]:
        for offset in range(10):
            body = {"n": offset} if offset % 2 else {"n": offset, "password": CANARY}
            event = RunEvent(
                event_id=f"event-{offset}",
                run_id="run-1",
                sequence=offset,
                occurred_at=NOW_US,
                kind="message",
                body=json.dumps(body),
            )
            value = b"rubbish" if offset == 9 else encode(event)
            kind: Kind = "bad" if offset == 9 else "clean" if offset % 2 else "canary"
            digest = hashlib.sha256(event.body.encode()).hexdigest()
            self.sent[0, offset] = Sent(kind, event.event_id, digest)
            message = Message(offset, NOW_US, b"run-1", value)
            yield offset, self.masker.mask(message, Coordinates("t", 0), NOW_US)

    def change(self, offset: int, **columns: object) -> None:
        result = self.results[offset]
        assert isinstance(result, MaskedEvent)
        self.results[offset] = result._replace(row={**result.row, **columns})

    def verdict(self) -> Verdict:
        """Writes the lake, in one slice, and judges it."""
        store = Store.open(self.lake, create=True)
        store_ruleset(store, self.masker.redactor.digest, ruleset_document(load_ruleset()))
        store_policy(store, self.masker.policy.digest, self.masker.policy.document)
        builder = SliceBuilder(0, NOW_US, 0.0, Memories(KeyRing.generate(), {}))
        changed, at = Changed(self.masker, self.results), Coordinates("t", 0)
        for offset in sorted(self.results):
            builder.take([Message(offset, NOW_US, b"", b"123456789")], changed, at)
        builder.skip_to(10, "not-delivered")
        masked = builder.finish("topic-id", changed, at)
        committer = SliceCommitter(store, new_claim(), lambda: NOW_US)
        written = committer.write(masked)
        assert written is not None
        committer.commit(written)
        return judge(self.lake, self.keys, self.sent, Search([CANARY]), self.work)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evidence") / "keys.json"


@pytest.fixture(scope="module")
def masker(keys: Path) -> Masker:
    ring, _ = load_or_create_keys(keys)
    return Masker(Redactor(load_ruleset(), ring), load_policy())


@pytest.fixture
def ingested(tmp_path: Path, keys: Path, masker: Masker) -> Ingested:
    return Ingested(tmp_path, keys, masker)


def test_a_sound_ingest_is_good(ingested: Ingested) -> None:
    assert ingested.verdict().is_good


def test_a_message_that_is_called_a_gap_is_lost(ingested: Ingested) -> None:
    del ingested.results[4]
    verdict = ingested.verdict()
    assert (verdict.lost, verdict.findings) == (1, ()), "the lake alone looks whole"


def test_a_dead_letter_that_is_called_a_gap_is_lost(ingested: Ingested) -> None:
    del ingested.results[9]
    assert ingested.verdict().lost == 1


def test_an_offset_that_is_there_twice_is_doubled(ingested: Ingested) -> None:
    ingested.change(4, kafka_offset=2)
    verdict = ingested.verdict()
    assert (verdict.doubled, verdict.lost) == (((0, 2),), 1)


def test_an_event_where_none_was_sent_is_invented(ingested: Ingested) -> None:
    del ingested.sent[0, 5]
    assert ingested.verdict().invented == ((0, 5),)


LEAKS: dict[str, Callable[[Ingested], None]] = {
    "in a row": lambda i: i.change(4, body=json.dumps({"n": 4, "said": CANARY})),
    "in hex, in a file": lambda i: _write(i.work, CANARY.encode().hex()),
    "in a file name": lambda i: _write(i.work, "", f"core.{CANARY}"),
    "percent-encoded, in the log": lambda i: _write(
        i.lake / "_log" / "t", "".join(f"%{byte:02X}" for byte in CANARY.encode())
    ),
}


def _write(folder: Path, text: str, name: str = "worker.log") -> None:
    before = os.umask(0o077)  # a lake is its owner's alone
    folder.mkdir(parents=True, exist_ok=True)
    os.umask(before)
    (folder / name).write_text(f"something before {text} and after")


@pytest.mark.parametrize("leak", LEAKS)
def test_a_canary_anywhere_is_raw(ingested: Ingested, leak: str) -> None:
    LEAKS[leak](ingested)
    assert len(ingested.verdict().raw) == 1


def test_a_body_that_is_not_what_was_sent_is_changed(ingested: Ingested) -> None:
    ingested.change(5, body='{"n":  5}')
    assert ingested.verdict().changed == ((0, 5),)
