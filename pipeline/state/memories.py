"""What runs have shown in their fields, for the reader: one memory a run, sealed for the state.

Deterministic: what is remembered follows from the partition's events alone, whichever slices they
were read in, and `pipeline.state` brings it back after a restart.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.state.document import MEMORY, Document, Entry, encode_document
from redactors import KeyRing, RunMemory

MAX_RUNS: Final = 10_000
"""Runs of one partition whose values are remembered; past it the least recently seen goes."""

MAX_OPENED: Final = 256
"""Memories that are kept ready for use; the others are opened again when their run goes on."""


@dataclass(slots=True)
class _Kept:
    """One run's memory; `sealed` is that of `version`, `memory` None while it is not opened."""

    memory: RunMemory | None
    seen_us: int
    sealed: bytes = b""
    version: int = -1


class Memories:
    """The memories of one partition's runs."""

    def __init__(self, keys: KeyRing, sealed: Mapping[str, Entry]) -> None:
        self._keys = keys
        self._kept = OrderedDict(
            (run_id, _Kept(None, entry.seen_us, entry.payload or b""))
            for run_id, entry in sealed.items()
        )
        self._opened: OrderedDict[str, None] = OrderedDict()
        self._changed: dict[str, None] = {}

    def of(self, run_id: str) -> RunMemory:
        """The run's memory, an empty one if nothing of it is remembered.

        Raises KeyRingError if the key is gone that it was sealed with.
        """
        kept = self._kept.get(run_id)
        if kept is None:
            return RunMemory()
        if kept.memory is None:
            kept.memory = RunMemory.unseal(kept.sealed, self._keys, run_id)
            kept.version = kept.memory.version
        return kept.memory

    def keep(self, run_id: str, memory: RunMemory, now_us: int) -> None:
        """Takes note of the memory after an event of the run."""
        if not memory:
            return
        kept = self._kept.get(run_id)
        if kept is None:
            kept = self._kept[run_id] = _Kept(memory, now_us)
            if len(self._kept) > MAX_RUNS:
                self.forget(next(iter(self._kept)))
        kept.seen_us = max(now_us, kept.seen_us)
        self._kept.move_to_end(run_id)
        self._changed.pop(run_id, None)
        self._changed[run_id] = None
        self._hold_open(run_id)

    def forget(self, run_id: str) -> None:
        """The run is over."""
        if self._kept.pop(run_id, None) is not None:
            self._opened.pop(run_id, None)
            self._changed.pop(run_id, None)
            self._changed[run_id] = None

    def forget_before(self, time_us: int) -> None:
        """Forgets the runs of which nothing came since `time_us`."""
        while self._kept and (oldest := next(iter(self._kept))):
            if self._kept[oldest].seen_us > time_us:
                return
            self.forget(oldest)

    def take_change(self, now_us: int) -> bytes:
        """What changed since the last time, sealed, as a document; empty if nothing did."""
        if not self._changed:
            return b""
        entries = tuple(self._entry(run_id) for run_id in self._changed)
        self._changed = {}
        return encode_document(Document("", now_us, entries, ()))

    def _entry(self, run_id: str) -> Entry:
        kept = self._kept.get(run_id)
        if kept is None:
            return Entry(run_id, MEMORY, 0, None)
        return Entry(run_id, MEMORY, kept.seen_us, self._sealed(run_id, kept))

    def _sealed(self, run_id: str, kept: _Kept) -> bytes:
        if kept.memory is not None and kept.version != kept.memory.version:
            kept.sealed = kept.memory.seal(self._keys, run_id)
            kept.version = kept.memory.version
        return kept.sealed

    def _hold_open(self, run_id: str) -> None:
        self._opened.pop(run_id, None)
        self._opened[run_id] = None
        if len(self._opened) > MAX_OPENED:
            closed, _ = self._opened.popitem(last=False)
            self._sealed(closed, self._kept[closed])
            self._kept[closed].memory = None
