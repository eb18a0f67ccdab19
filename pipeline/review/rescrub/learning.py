"""What runs show, taken from all their events: a memory is causal, and learns some of it too late.

    values that fields show under the new rules, and that are still there
    what the state of open runs remembers, sealed
    what fields showed that are masked now, where the topic still has their events
    what a rescrub that was stopped had learnt: sealed too, for what showed it may be masked by now

A value that none of them has any more cannot be looked for: its mask does not tell it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import pyarrow as pa

from pipeline.lake.entries import digest
from pipeline.lake.history import History
from pipeline.lake.layout import TMP, Bucket
from pipeline.lake.schemas import topic_decoder
from pipeline.lake.store import Store
from pipeline.retrying import ReadAgain
from pipeline.state.chain import read_chain
from pipeline.state.document import MEMORY, Document, Entry, decode_document, encode_document
from pipeline.state.open_runs import memory_entries
from redactors import KeyRing, Redactor, Ruleset, RunMemory, Unexaminable, ruleset_digest
from redactors.engine import labels_of
from schemas import DecodeError

KEPT: Final = f"{TMP}/rescrub"


Shown = dict[tuple[int, int], tuple[str, str]]
"""Events in which a field was masked, by offset and number in their record: the run, and when their
bucket expires."""


class Lessons:
    """One memory for each run that shows anything, by run id.

    Values are remembered for the names of their fields: only the rules for these are asked.
    """

    def __init__(self, ruleset: Ruleset, keys: KeyRing, labels: Iterable[str]) -> None:
        fields = ruleset.model_copy(update={"rules": (), "recognizers": ()})
        every = labels_of(ruleset).union(labels)
        self._redactor = Redactor(fields, keys, labels=every)
        self._digest = ruleset_digest(ruleset)
        self._first = ""
        self.memories: dict[str, RunMemory] = {}

    def take_events(self, rows: pa.Table, bucket: Bucket) -> None:
        """Learns from rows of `events` (run_id, body, ruleset) that stand under other rules."""
        columns = [rows[name].to_pylist() for name in ("run_id", "body", "ruleset")]
        for run_id, body, ruleset in zip(*columns, strict=True):
            if ruleset == self._digest:
                continue
            memory = RunMemory()
            with suppress(Unexaminable):  # what it showed until then counts
                self._redactor.redact_json(body, memory)
            self._learn(run_id, memory)
            if memory:
                self._first = min(self._first or bucket.expires, bucket.expires)

    def take_open_runs(self, store: Store, histories: Iterable[History], keys: KeyRing) -> None:
        """Learns what the open runs of the partitions remember.

        Raises KeyRingError if a key is gone that a memory is sealed with.
        """
        for history in histories:
            for run_id, sealed in _sealed(store, history):
                self._learn(run_id, RunMemory.unseal(sealed, keys, run_id))

    def take_topic(
        self, store: Store, shown: Mapping[tuple[str, int], Shown], read_again: ReadAgain
    ) -> None:
        """Learns from the records of events in which fields were masked, as they came.

        Raises what `read_again` raises.
        """
        for at, events in sorted(shown.items()):
            decoder = topic_decoder(store, at[0])
            for message in read_again(*at, sorted({offset for offset, _ in events})):
                number = message.member.index if message.member else 0
                if (message.offset, number) not in events:
                    continue
                run_id, expires = events[message.offset, number]
                memory = RunMemory()
                with suppress(DecodeError, Unexaminable):
                    event = decoder.decode(message.value, message.schema_header)
                    self._redactor.redact_json(event.body, memory)
                self._learn(run_id, memory)
                self._first = min(self._first or expires, expires)

    def take_kept(self, store: Store, keys: KeyRing) -> None:
        """Learns what was kept by one that was stopped; errors as above."""
        for item in list(store.walk(KEPT)):
            for entry in decode_document(store.get(item.key)).memories:
                self._learn(
                    entry.run_id, RunMemory.unseal(entry.payload or b"", keys, entry.run_id)
                )

    def keep(self, store: Store, keys: KeyRing, now_us: int) -> None:
        """Keeps what events have shown, sealed, until `forget`, but for no longer than these."""
        if self._first:
            entries = [
                Entry(run_id, MEMORY, now_us, memory.seal(keys, run_id))
                for run_id, memory in sorted(self.memories.items())
            ]
            document = encode_document(Document("", now_us, tuple(entries), ()))
            # A sweep removes what lies here by the end of the bucket in its name.
            key = f"{KEPT}/memories-expires={self._first}-{digest(document)}"
            store.put_if_absent(key, document)

    def _learn(self, run_id: str, memory: RunMemory) -> None:
        if memory:
            self.memories.setdefault(run_id, RunMemory()).learn(memory)


def forget(store: Store) -> None:
    """Everything that was learnt is masked."""
    store.remove_folder(KEPT)


def _sealed(store: Store, history: History) -> Iterator[tuple[str, bytes]]:
    last = history.position.last_commit
    name = last.state_digest if last else None
    documents = read_chain(store, history.topic, history.partition, name, memories_only=True)
    for run_id, entry in memory_entries(documents).items():
        yield run_id, entry.payload or b""
