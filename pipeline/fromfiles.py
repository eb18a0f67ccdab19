"""Files in the place of a topic: each is read as a partition of its own, an event after the other.

    file name and first event → topic          number of an event in the file → offset

A file that is read again adds nothing, one that has grown goes on where the log ends; what the log
has read of it must still be there as it was, which a keyed hash in each log entry shows.  Formats
with a state are read from the start of the file, and what was stored before is passed over: reading
costs little beside masking.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, TopicPartition

from pipeline.errors import InputError, LogError
from pipeline.formats import AT_IMPORT, Format, format_named, open_source, stamped
from pipeline.lake.entries import Commit, Intent
from pipeline.lake.log import Position
from pipeline.slices import FROM_FILE, MaskedSlice, Message
from redactors import KeyRing
from schemas import EncodeError, RunEvent, encode

PARTITION: Final = 0
"""A file has one."""

MAX_NAME: Final = 100
"""Characters of a file's name that its topic may have."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNBOUNDED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FileRecord:
    """An event in a file, or (`event` is None) its end: as much of a Kafka message as is read."""

    at: int
    event: RunEvent | None

    def partition(self) -> int:
        return PARTITION

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return None if self.event else KafkaError(KafkaError._PARTITION_EOF)

    def __len__(self) -> int:
        return len(self.event.body) if self.event else 0


class FileConsumer:
    """Reads one file by the calls that a reader makes of a Kafka consumer and its topic.

    What cannot be read ends the file: `failure` says why.
    """

    def __init__(self, path: Path, kind: Format, keys: KeyRing) -> None:
        self._path, self._format, self._keys = path, kind, keys
        self._open = ExitStack()
        self._events: Iterator[RunEvent] = iter(())
        self._digests: dict[int, bytes] = {}
        self.failure: InputError | None = None
        self._begin()

    def names(self, is_clean: Callable[[str], bool]) -> Iterator[str]:
        """The topics that the file may count as, under each key of the ring, the current one first:
        its name, if that may be shown, and a keyed hash of the name and the first event.

        None at all for a file without events.  To be called before anything is read.
        """
        first = self._next()
        if first is None:
            return
        # It was read only to know the file: it is there still.
        self._events = chain((first,), self._events)
        self._start()
        name = self._path.name
        parts = name.encode("utf-8", "surrogateescape"), _digest(first)
        is_shown = len(name) <= MAX_NAME and _NAME.fullmatch(name) and is_clean(name)
        for key_id in dict.fromkeys((self._keys.current, *self._keys.keys)):
            digest = self._keys.digest(key_id, "file", *parts).hex()[:16]
            yield f"{name if is_shown else 'file'}-{digest}"

    def topic_id(self, partition: int, end: int, key_id: str) -> str:
        """What a log entry names what was read by: a keyed hash of the events before `end`."""
        if key_id not in self._keys.keys:
            raise LogError(
                f"{self._path} was read under key {key_id}, which is not in the key ring",
                code="key-gone",
                hint="add the key to the ring",
            )
        if end not in self._digests:
            self._go_to(end)
        digest = self._digests[end]
        self._digests = {at: each for at, each in self._digests.items() if at >= end}
        return FROM_FILE + self._keys.digest(key_id, "file", digest).hex()

    def check(self, partition: int, position: Position) -> None:
        """Raises InputError unless what the log has read stands in the file as it was."""
        entry: Intent | Commit | None = position.open_intent or position.last_commit
        if entry is None or (isinstance(entry, Commit) and entry.superseded is not None):
            return
        if entry.topic_id != self.topic_id(partition, entry.end, entry.key_id):
            raise self._changed()

    def messages(self, record: FileRecord, now_us: int, encoding: str) -> Sequence[Message]:
        """What `emit` would have sent; `now_us` is the time of the import."""
        return (self._message(record, now_us),)

    def _message(self, record: FileRecord, now_us: int) -> Message:
        assert record.event is not None
        event = stamped(record.event, now_us)
        try:
            return Message(record.at, None, value=encode(event), key=event.run_id.encode())
        except EncodeError as error:
            body = event.body.encode("utf-8", "surrogatepass")
            return Message(record.at, None, key=b"", value=body, unfit=error.code)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Goes to the offset of the only place."""
        (place,) = places
        self._go_to(place.offset)

    def consume(self, count: int, timeout_s: float) -> list[FileRecord]:
        """The next records; where there are no more, the end of the file."""
        first = self._at
        events = list(islice(iter(self._next, None), count))
        records = [FileRecord(at, event) for at, event in enumerate(events, start=first)]
        return records if len(events) == count else [*records, FileRecord(self._at, None)]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        """A file begins with its first event; where it ends is seen when it is read."""
        return 0, _UNBOUNDED

    def close(self) -> None:
        """Closes the file."""
        self._open.close()

    def _begin(self) -> None:
        """Opens the file at its start."""
        self._open.close()
        source, _ = self._open.enter_context(open_source(self._path, AT_IMPORT))
        self._events = self._format.read(source)
        self._start()

    def _start(self) -> None:
        self._at, self._hash = 0, hashlib.sha256()
        self._digests = {0: self._hash.digest()}

    def _go_to(self, offset: int) -> None:
        if offset < self._at:
            self._begin()
        while self._at < offset:
            self._digests.clear()
            if self._next() is None:
                raise self.failure or self._changed()

    def _next(self) -> RunEvent | None:
        """The next event; None where the file ends, or cannot be read on."""
        if self.failure is not None:
            return None
        try:
            event = next(self._events, None)
        except InputError as error:
            self.failure = error
            return None
        if event is not None:
            self._at += 1
            self._hash.update(_digest(event))
            self._digests[self._at] = self._hash.digest()
        return event

    def _changed(self) -> InputError:
        return InputError(
            f"{self._path}: what was read of the file does not stand in it as it did",
            code="file-changed",
            hint="a file may only grow; under another name it is read as another file",
        )


def _digest(event: RunEvent) -> bytes:
    """Of the fields that are not at their default: a field that is new changes no digest."""
    given = {
        field.name: value if isinstance(value, str | int | None) else repr(value)
        for field in fields(event)
        if (value := getattr(event, field.name)) != field.default
    }
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).digest()


class FileSlices:
    """Iterates over the masked slices of files; `read` gives those of one.

    Ends after the last file, or when `stop()` is true.  A file that cannot be read does not keep
    the others from being read: the first such error is raised in the end.
    """

    def __init__(
        self,
        files: Iterable[tuple[str, str]],
        read: Callable[[Path, Format], Iterator[MaskedSlice]],
        stop: Callable[[], bool],
    ) -> None:
        self._files, self._read, self._stop = files, read, stop

    def __iter__(self) -> Iterator[MaskedSlice]:
        failures: list[InputError] = []
        for path, name in self._files:
            if self._stop():
                return
            try:
                yield from self._read(Path(path), format_named(name))
            except InputError as error:
                failures.append(error)
        if failures:
            raise failures[0]
