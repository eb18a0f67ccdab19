"""The open runs of one partition, and the documents that say what changed of them.

Each commit gets a document with what its slice changed.  Now and then it is a base with all there
is, so that a restart reads little and what is gone from the state goes from the disk too.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from pipeline.lake.entries import digest
from pipeline.slices import StateChange
from pipeline.state.chain import StoredDocument
from pipeline.state.document import MEMORY, Document, Entry, encode_document

MAX_DOCUMENTS: Final = 64
"""Documents that a restart reads at most: the next one is a base."""

Key = tuple[str, int]


class OpenRuns:
    """Entries by (run id, attempt), the least recently touched first.

    `digest` is that of the last document ("": nothing was written yet).  What is put, or taken out
    by `drop`, is written with the next document.
    """

    def __init__(self, documents: Sequence[StoredDocument] = ()) -> None:
        self.digest = documents[-1].digest if documents else ""
        self._entries: dict[bool, OrderedDict[Key, Entry]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self._sizes = [stored.size_bytes for stored in documents]
        self._base_us = documents[0].document.now_us if documents else 0
        self._stored_deadline_us: int | None = None
        for document in (stored.document for stored in documents):
            for entry in chain(document.memories, document.attempts):
                self._apply(entry)
                self._note_stored(entry)
        self._changed: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._entries[False])

    def get(self, run_id: str, attempt: int) -> Entry | None:
        """The entry, where there is one."""
        return self._entries[attempt == MEMORY].get((run_id, attempt))

    def oldest(self) -> Iterator[Entry]:
        """The attempts, those first that were touched longest ago."""
        return iter(self._entries[False].values())

    def put(self, entry: Entry) -> None:
        """Puts an entry at the end; one without payload takes the run's out."""
        key = (entry.run_id, entry.attempt)
        self._apply(entry)
        self._changed.pop(key, None)
        self._changed[key] = None

    def rewrite(self, entry: Entry) -> None:
        """Puts an entry in place of the one it was made from; written with the next base only."""
        assert entry.attempt != MEMORY and (entry.run_id, entry.attempt) in self._entries[False]
        self._entries[False][entry.run_id, entry.attempt] = entry

    def drop(self, run_id: str, attempt: int) -> None:
        """Takes an entry out."""
        self.put(Entry(run_id, attempt, 0, None))

    def ending_before(self, time_us: int) -> list[Entry]:
        """The attempts that hold content whose deadline comes before `time_us`."""
        return [
            entry
            for entry in self._entries[False].values()
            if entry.deadline_us is not None and entry.deadline_us < time_us
        ]

    def is_stale(self, now_us: int, horizon_us: int, max_age_us: int) -> bool:
        """Whether the documents on the disk hold what must go: content with a deadline before
        `horizon_us`, or what went from the state so long ago."""
        if not self._sizes:
            return False
        deadline_us = self._stored_deadline_us
        must_go = deadline_us is not None and deadline_us < horizon_us
        return must_go or (len(self._sizes) > 1 and now_us - self._base_us >= max_age_us)

    def is_overdue(self, now_us: int, idle_us: int) -> bool:
        """Whether the documents on the disk hold content with a deadline that has come, or the
        memory of a run of which nothing came for `idle_us`."""
        memories = self._entries[True].values()
        return self.is_stale(now_us, now_us + 1, now_us) or any(
            entry.seen_us <= now_us - idle_us for entry in memories
        )

    def forget_before(self, time_us: int) -> None:
        """Takes out the memories of runs of which nothing came since."""
        for run_id, _ in [
            key for key, entry in self._entries[True].items() if entry.seen_us <= time_us
        ]:
            self.drop(run_id, MEMORY)

    def take_change(self, now_us: int, *, as_base: bool = False) -> StateChange:
        """What changed since the last time, as the next document; empty if nothing did."""
        if not (self._changed or as_base):
            return StateChange()
        as_base = as_base or not self.digest or len(self._sizes) >= MAX_DOCUMENTS
        as_base = as_base or sum(self._sizes[1:]) > max(self._sizes[0], 1 << 20)
        previous = "" if as_base else self.digest
        entries = self._all() if as_base else self._changes()
        document = Document(
            previous,
            now_us,
            tuple(entry for entry in entries if entry.attempt == MEMORY),
            tuple(entry for entry in entries if entry.attempt != MEMORY),
        )
        return self._written(document, encode_document(document))

    def _written(self, document: Document, data: bytes) -> StateChange:
        if not document.previous:
            self._sizes, self._base_us, self._stored_deadline_us = [], document.now_us, None
        self._sizes.append(len(data))
        for entry in document.attempts:
            self._note_stored(entry)
        self.digest = digest(data)
        self._changed = {}
        return StateChange(data, document.previous)

    def _all(self) -> list[Entry]:
        return [*self._entries[True].values(), *self._entries[False].values()]

    def _changes(self) -> list[Entry]:
        return [self.get(*key) or Entry(*key, 0, None) for key in self._changed]

    def _apply(self, entry: Entry) -> None:
        entries = self._entries[entry.attempt == MEMORY]
        entries.pop((entry.run_id, entry.attempt), None)
        if entry.payload is not None:
            entries[entry.run_id, entry.attempt] = entry

    def _note_stored(self, entry: Entry) -> None:
        deadline_us = entry.deadline_us
        if deadline_us is not None:
            known_us = self._stored_deadline_us
            self._stored_deadline_us = min(deadline_us, known_us or deadline_us)


def memory_entries(documents: Iterable[StoredDocument]) -> OrderedDict[str, Entry]:
    """The sealed memories that documents lead to, by run id, in the order they were touched."""
    entries: OrderedDict[str, Entry] = OrderedDict()
    for entry in chain.from_iterable(stored.document.memories for stored in documents):
        entries.pop(entry.run_id, None)
        if entry.payload is not None:
            entries[entry.run_id] = entry
    return entries
