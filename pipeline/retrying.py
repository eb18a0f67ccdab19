"""Dead letters looked at again: those that are events under the present rules become events.

1. Read the dead letters of a bucket, and their records again where the topic still has them.
2. Mask them; go on with those that are events now.
3. Claim the bucket and list it again.
4. Publish the events, and the dead letters that stay, in files of their own.  Of a record that
   turns out to hold several events there may be some of both.
5. Commit the rewrite: at once the events are part of the lake, and their dead letters are not.
6. Delete the files that were replaced.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from pipeline.building import parts_of, row_order
from pipeline.config import IngestConfig
from pipeline.errors import LogError
from pipeline.kafka import broker_error, describe_topic, watermarks
from pipeline.lake.contents import BucketReader, Flags
from pipeline.lake.entries import FileEntry
from pipeline.lake.history import read_history
from pipeline.lake.layout import Bucket, new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet
from pipeline.lake.provenance import Origins, row_origins
from pipeline.lake.rewriting import BucketLog, Claim
from pipeline.lake.schemas import topic_decoder
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, publish_files
from pipeline.masking import Coordinates, DeadLetter, MaskedEvent, Masker, Refused
from pipeline.opening import consumer_settings, memories_at, registry_of, rules_for_reading
from pipeline.slices import FROM_FILE, Message, Part
from pipeline.state.memories import Memories
from pipeline.unpacking import raw_message, unpacked_as_any

PURPOSE: Final = "retry"

NEAR: Final = 1_000
"""Offsets between two wanted records up to which those in between are read and let go."""

BATCH_MESSAGES: Final = 500
POLL_S: Final = 1.0

SILENT_POLLS: Final = 30
"""Polls without an answer after which the broker counts as gone."""

Row = Mapping[str, Any]
Place = tuple[str, int, int, int | None]
"""(topic, partition, offset, which of the events of a record with several)"""

Found = MaskedEvent | DeadLetter

ReadAgain = Callable[[str, int, Sequence[int]], Iterator[Message]]
"""The messages at some offsets (rising) of a partition, those that are still there."""


@dataclass(slots=True)
class RetryReport:
    """What became of the dead letters that were looked at.

    `stored` are events now; `gone` have no record any more, or another one than they name; `stay`
    counts the others by the code they have today ("refused": an event past its deadline).
    """

    stored: int = 0
    gone: int = 0
    stay: Counter[str] = field(default_factory=Counter)


class Retrier:
    """Retries as one rewriter; `now_us` is one clock reading, which the new rows share.

    `masker_of` a topic decodes what that topic's messages name.
    """

    def __init__(
        self,
        store: Store,
        masker_of: Callable[[str], Masker],
        memories: Callable[[str, int], Memories],
        read_again: ReadAgain,
        now_us: int,
    ) -> None:
        self._store, self._masker_of, self._memories_of = store, masker_of, memories
        self._read_again, self._now_us = read_again, now_us
        self._claim = new_claim()
        self._memories: dict[tuple[str, int], Memories] = {}
        self.report = RetryReport()

    def retry(self, topic: str | None = None, code: str | None = None) -> RetryReport:
        """Steps 1 to 6, bucket by bucket: all dead letters, or those of a topic or code.

        Raises `LostPartition` if another rewriter works on a bucket, `BrokerError` or `LogError`
        if a topic cannot be read; what was committed before stays, and doing it again is right.
        """
        for bucket, rows in self._dead_letters():
            chosen = [
                row
                for row in rows
                if topic in (None, row["kafka_topic"]) and code in (None, row["code"])
            ]
            # 1, 2
            found = dict(self._now_events(chosen))
            if found:
                self._move(bucket, found)
        return self.report

    def _dead_letters(self) -> Iterator[tuple[Bucket, list[Row]]]:
        """The live dead letters by bucket."""
        by_bucket: dict[Bucket, list[Row]] = defaultdict(list)
        for file in read_lake(self._store).files["dead_letters"]:
            bucket = parse_bucket(file.path)
            assert bucket is not None
            by_bucket[bucket] += from_parquet(self._store.get(file.path)).to_pylist()
        yield from sorted(by_bucket.items())

    def _now_events(self, rows: Collection[Row]) -> Iterator[tuple[Place, list[Found]]]:
        """The dead letters of which there is an event now, each with all that it comes to."""
        by_partition = defaultdict[tuple[str, int], dict[int, list[Row]]](dict)
        for row in rows:
            wanted = by_partition[row["kafka_topic"], row["kafka_partition"]]
            wanted.setdefault(row["kafka_offset"], []).append(row)
        for at, wanted in sorted(by_partition.items()):
            self.report.gone += sum(map(len, wanted.values()))
            messages = self._read_again(*at, sorted(wanted))
            for offset, group in groupby(messages, key=attrgetter("offset")):
                record = list(group)
                for row in wanted[offset]:
                    found = self._looked_at_again(row, record, Coordinates(*at))
                    if found:
                        yield _place(row), found

    def _looked_at_again(self, row: Row, record: Sequence[Message], at: Coordinates) -> list[Found]:
        """What a dead letter comes to, if there is an event among it; `record` are all messages of
        its record."""
        masker = self._masker_of(at.topic)
        mine = [each for each in record if row.get("record_index") in (None, _index(each))]
        if not mine or not _is_of(row, mine[0], masker):
            return []
        self.report.gone -= 1
        memory = self._memory(at.topic, at.partition)
        results = [masker.mask(each, at, self._now_us, memory) for each in mine]
        if any(isinstance(each, MaskedEvent) for each in results):
            return [each for each in results if not isinstance(each, Refused)]
        codes = [each.code for each in results if isinstance(each, DeadLetter)]
        self.report.stay[codes[0] if codes else "refused"] += 1
        return []

    def _memory(self, topic: str, partition: int) -> Memories:
        """What the partition's open runs have shown; what is learnt here is not kept."""
        if (topic, partition) not in self._memories:
            self._memories[topic, partition] = self._memories_of(topic, partition)
        return self._memories[topic, partition]

    def _move(self, bucket: Bucket, found: Mapping[Place, Sequence[Found]]) -> None:
        log = BucketLog(self._store, bucket)
        # 3
        claim = log.claim(PURPOSE, self._claim, self._now_us)
        removed: list[FileEntry] = []
        origin_of: dict[Place, str] = {}
        staying: list[pa.Table] = []

        def stays(rows: pa.Table) -> Flags:
            return np.array([_place(row) not in found for row in rows.to_pylist()], np.bool_)

        for file in BucketReader(self._store).read(log, stays).files:
            assert file.rows is not None
            if file.kept.all():
                continue
            removed.append(file.entry)
            places = [_place(row) for row in file.rows.to_pylist()]
            origin_of |= zip(places, row_origins(file.rows, file.origins), strict=True)
            staying.append(file.rows_where(file.kept))
        # 4
        moved: list[Found] = []
        further: Counter[str] = Counter()
        for place in found.keys() & origin_of.keys():
            moved += found[place]
            further[origin_of[place]] += len(found[place]) - 1
            origin_of |= {_place(each.row): origin_of[place] for each in found[place]}
        new = _files(claim, [*_parts(moved), *_staying_part(bucket, staying)])
        origins = {file.key: _origins(file.rows, origin_of) for file in new}
        # 5, 6
        log.finish(claim, removed, publish_files(self._store, new), origins, further=dict(+further))
        self.report.stored += sum(isinstance(each, MaskedEvent) for each in moved)


def _is_of(row: Row, message: Message, masker: Masker) -> bool:
    """Whether a record is the one that the dead letter was made from."""
    value, redactor = message.record, masker.redactor
    is_keyed_alike = row["key_id"] == redactor.key_id
    return len(value) == row["length_bytes"] and (
        not is_keyed_alike or redactor.keyed_hash(value) == row["payload_hmac"]
    )


def _files(claim: Claim, parts: Sequence[Part]) -> list[NewFile]:
    return [
        NewFile.rewritten(
            claim.intent, part.rows, Bucket(part.table, part.retention_class, part.expires), index
        )
        for index, part in enumerate(parts)
    ]


def _parts(found: Sequence[Found]) -> tuple[Part, ...]:
    rows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for each in sorted(found, key=lambda each: row_order(each.row)):
        table = "events" if isinstance(each, MaskedEvent) else "dead_letters"
        rows[table, each.placement.retention_class, each.placement.expires].append(each.row)
    sealed = {each.placement.retention_class for each in found if each.placement.sealed}
    return parts_of(rows, sealed)


def _staying_part(bucket: Bucket, tables: Sequence[pa.Table]) -> Iterator[Part]:
    rows = pa.concat_tables(tables) if tables else None
    if rows is not None and rows.num_rows:
        yield Part(bucket.table, bucket.retention_class, bucket.expires, rows)


def _origins(rows: pa.Table, origin_of: Mapping[Place, str]) -> Origins:
    names = ("kafka_topic", "kafka_partition", "kafka_offset", "record_index")
    index = rows.select([name for name in names if name in rows.column_names]).to_pylist()
    return dict(Counter(origin_of[_place(row)] for row in index))


def _place(row: Row) -> Place:
    at = row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]
    return (*at, row.get("record_index"))  # a file may be older than the column


def _index(message: Message) -> int | None:
    return message.member.index if message.member else None


def retry_in_lake(config: IngestConfig, topic: str | None, code: str | None) -> RetryReport:
    """Retries the dead letters of the lake that `config` names; its own topic does not matter."""
    store = Store.open(config.lake)
    rules = rules_for_reading(config, store)

    def memories(topic: str, partition: int) -> Memories:
        position = PartitionLog(store, topic, partition).position()
        return memories_at(store, topic, rules.keys)(partition, position)

    registry, again = registry_of(config), reader_again(store, config)

    @cache  # it remembers the schemas and names that it has seen
    def masker_of(topic: str) -> Masker:
        decoder = topic_decoder(store, topic, registry)
        return Masker(rules.redactor, rules.policy, decoder=decoder)

    retrier = Retrier(store, masker_of, memories, again, time.time_ns() // 1000)
    return retrier.retry(topic, code)


def reader_again(store: Store, config: IngestConfig) -> ReadAgain:
    """Reads records of the topics that a lake was made from, all events of those that hold several;
    the topic of `config` does not matter.

    Raises `LogError` for a topic that was made again, `BrokerError` if it cannot be read.
    """

    def read_again(topic: str, partition: int, offsets: Sequence[int]) -> Iterator[Message]:
        history = read_history(store, topic, partition)
        known = history.position.topic_id
        if known.startswith(FROM_FILE):
            return  # nobody says where the file is
        _check_identity(known, config, topic)
        consumer = Consumer(consumer_settings(replace(config, topic=topic)))
        try:
            for record in _read_offsets(consumer, topic, partition, offsets):
                encodings = (*history.encodings_at(record.offset), config.encoding)
                yield from unpacked_as_any(record, encodings, topic, partition)
        finally:
            consumer.close()

    return read_again


def _check_identity(known: str, config: IngestConfig, topic: str) -> None:
    if known != describe_topic(config.bootstrap, topic, config.client_file).topic_id:
        raise LogError(
            f"the topic {topic} is not the one this lake has read (it was deleted and made again)",
            code="topic-recreated",
            hint="its records cannot be read again; dead letters go with their retention",
        )


def _read_offsets(
    consumer: Consumer, topic: str, partition: int, offsets: Sequence[int]
) -> Iterator[Message]:
    """The records at those of the offsets that the topic still has."""
    low, high = watermarks(consumer, topic, partition)
    wanted = [offset for offset in offsets if low <= offset < high]
    for first, last in _stretches(wanted):
        consumer.assign([TopicPartition(topic, partition, first)])
        among, reached, silent = set(wanted), first, 0
        while reached <= last:
            messages = consumer.consume(BATCH_MESSAGES, POLL_S)
            silent = 0 if messages else silent + 1
            if silent > SILENT_POLLS:
                raise broker_error(KafkaError(KafkaError._TIMED_OUT), topic)
            for message in messages:
                error, offset = message.error(), message.offset()
                assert offset is not None
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise broker_error(error, topic)
                reached = max(reached, offset + 1)
                if error is None and offset <= last and offset in among:
                    yield raw_message(message)


def _stretches(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of offsets that are read in one go."""
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] - offsets[index - 1] > NEAR:
            yield offsets[start], offsets[index - 1]
            start = index
