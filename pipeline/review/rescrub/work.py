"""A lake about to be masked again: the rows concerned, what their runs show, who masks them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import LakeError
from pipeline.lake.contents import Flags
from pipeline.lake.documents import load_ruleset_document, stored_rulesets
from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import Bucket, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet, with_record_index
from pipeline.lake.query import query
from pipeline.lake.sealing import has_keys
from pipeline.lake.store import Store
from pipeline.retention.holds import HoldBook
from pipeline.retrying import ReadAgain
from pipeline.review.declarations import declarations
from pipeline.review.rescrub.learning import Lessons, Shown
from pipeline.review.rescrub.open_state import changed_entries, quoted_by_open_runs
from pipeline.review.rescrub.quoted import Attempt, Facts, Place, Quotations, places_of
from pipeline.review.rescrub.scrubbing import Counts, Scrubber
from pipeline.slices import Table
from redactors import KeyRing, Redactor, Ruleset, parse_document
from redactors.engine import labels_of
from schemas.parquet import evidences

ORDER: Final[tuple[Table, ...]] = ("events", "runs", "dead_letters")

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


class Work:
    """What one re-redaction knows of its lake; `where` as for `Rescrubber`."""

    def __init__(
        self,
        store: Store,
        ruleset: Ruleset,
        keys: KeyRing,
        where: str | None,
        read_again: ReadAgain | None,
        progress: Progress,
    ) -> None:
        self.store, self._keys, self._progress = store, keys, progress
        self._ruleset = ruleset
        kept = [load_ruleset_document(store, digest) for digest in stored_rulesets(store)]
        every = (ruleset, *map(parse_document, kept))
        self._propagating = {f.id for each in every for f in each.fields if f.propagate}
        labels = {label for each in every for label in labels_of(each)}
        self._labels = frozenset(labels)
        self.redactor = Redactor(ruleset, keys, labels=labels)
        self._runs = _runs_where(store, where)
        self._book = HoldBook(store)
        self._done, lake = 0, read_lake(store)
        # Events are read three times: to learn, to mask, and for what quotes them.
        self._total = 3 * len(lake.files["events"]) + sum(len(lake.files[t]) for t in ORDER[1:])
        self.lessons = self._learnt(read_again)
        self.scrubbers = {t: Scrubber(self.redactor, self.lessons.memories) for t in ORDER}

    def about(self) -> tuple[str, ...]:
        """What the ledger is told: not the condition, which may quote what somebody looks for."""
        ruleset = f"ruleset {self.redactor.digest}"
        return (ruleset,) if self._runs is None else (ruleset, f"{len(self._runs)} runs")

    def files(self, table: Table, bucket: Bucket | None = None) -> tuple[FileEntry, ...]:
        """The live files of a table, or of one bucket."""
        found = read_lake(self.store).files[table]
        return tuple(file for file in found if bucket in (None, parse_bucket(file.path)))

    def partitions(self) -> list[tuple[str, int]]:
        """The partitions of the lake."""
        return [(each.topic, each.partition) for each in read_lake(self.store).histories]

    def read(self, file: FileEntry, columns: tuple[str, ...] | None = None) -> pa.Table:
        """The rows of a file; `LakeError` if its keys are gone, or it is no file any more."""
        try:
            return from_parquet(self.store.get(file.path), columns, self.store.bucket_keys)
        except (pa.ArrowException, OSError):
            raise LakeError(f"{file.path} cannot be read", code="unreadable") from None
        finally:
            if columns is None:
                self.tell()

    def readable(self, table: Table) -> Iterator[tuple[Bucket, pa.Table]]:
        """The rows of the chosen runs in a table, file by file; sealed ones only with their keys.

        Whoever masks a file whose keys are gone is told so then.
        """
        for file in self.open_files(table):
            rows, bucket = self.read(file), parse_bucket(file.path)
            assert bucket is not None
            yield bucket, rows.filter(pa.array(self._of_runs(rows)))

    def open_files(self, table: Table) -> Iterator[FileEntry]:
        """The live files of a table but for those that are sealed and whose keys are not here."""
        for file in self.files(table):
            if not file.sealed or has_keys(self.store.bucket_keys, file.sealed):
                yield file

    def tell(self) -> None:
        """One file more was read."""
        self._done += 1
        self._progress(min(self._done, self._total), self._total)

    def is_due(self, file: FileEntry) -> bool:
        """Whether a file of events or dead letters has rows that may change."""
        scrubber = self.scrubbers[file.table]
        if file.table == "dead_letters":
            rows = self.read(file, ("ruleset",))
            return self._runs is None and bool(scrubber.older(rows).any())
        rows = self.read(file, ("ruleset", "run_id"))
        chosen, learnt = self._of_runs(rows), list(scrubber.memories)
        if (scrubber.older(rows) & chosen).any():
            return True
        shown = pc.is_in(rows["run_id"], pa.array(learnt, pa.string())).to_numpy() & chosen
        trial = Scrubber(self.redactor, scrubber.memories)
        return bool(shown.any()) and trial.events(self.read(file), shown) is not None

    def chosen(self, file: FileEntry, rows: pa.Table) -> Flags:
        """Which rows are to be masked again; those that are held are counted, and are not."""
        bucket = parse_bucket(file.path)
        assert bucket is not None
        flags = self._of_runs(rows)
        keep = self._book.read().keep_in(bucket)
        if keep is not None:
            held = keep(rows) & flags
            self.scrubbers[file.table].counts.held += int(held.sum())
            flags = flags & ~held
        return flags

    def facts(self) -> Facts:
        """What records and open runs want to know of events, as these stand now."""
        facts = self.wanted()
        for _, rows in self.readable("events"):
            facts.take(rows)
        return facts

    def wanted(self) -> Facts:
        """The same, to be told by `Facts.take`."""
        places, repeated = set[Place](), set[Attempt]()
        for _, rows in self.readable("runs"):
            for row in rows.to_pylist():
                at = row["kafka_topic"], row["kafka_partition"]
                for found in evidences(row):
                    places.update(places_of(*at, found["kafka_offset"], found["event_id"]))
                if row["doubled"]:
                    repeated.add((row["run_id"], row["attempt"]))
        for at in self.partitions():
            more, twice = quoted_by_open_runs(self.store, *at)
            places |= more
            repeated |= twice
        return Facts(places, repeated)

    def due(self) -> tuple[list[Bucket], list[Bucket], Facts | None]:
        """Buckets of events, and of records and dead letters, with rows that may change; if there
        are none of events, what these say, too."""
        events = buckets_of(filter(self.is_due, self.files("events")))
        others = buckets_of(filter(self.is_due, self.files("dead_letters")))
        if events:
            return events, [*buckets_of(self.files("runs")), *others], None
        facts = self.facts()
        trial = self.trial(facts)
        records = buckets_of(
            file
            for file in self.files("runs")
            if trial.records(rows := self.read(file), self.chosen(file, rows)) is not None
        )
        return [], [*records, *others], facts

    def trial(self, facts: Facts) -> Quotations:
        """Masks what quotes events, and counts nothing."""
        return Quotations(Scrubber(self.redactor, self.lessons.memories), facts)

    def stale_states(self, facts: Facts) -> list[tuple[str, int]]:
        """The partitions of which the state of open runs holds what is to be masked."""
        trial = self.trial(facts)
        return [at for at in self.partitions() if changed_entries(self.store, *at, trial)[1]]

    def counts(self) -> Mapping[str, Counts]:
        """What was done to each table."""
        return {table: scrubber.counts for table, scrubber in self.scrubbers.items()}

    def _of_runs(self, rows: pa.Table) -> Flags:
        if self._runs is None:
            return np.ones(rows.num_rows, np.bool_)
        if "run_id" not in rows.column_names:
            return np.zeros(rows.num_rows, np.bool_)  # dead letters are of no run
        flags: Flags = pc.is_in(rows["run_id"], pa.array(self._runs, pa.string())).to_numpy()
        return flags

    def _learnt(self, read_again: ReadAgain | None) -> Lessons:
        lessons = Lessons(self._ruleset, self._keys, self._labels)
        shown = defaultdict[tuple[str, int], Shown](dict)
        for bucket, rows in self.readable("events"):
            self._check_keys(rows)
            lessons.take_events(rows, bucket)
            for *at, offset, number, run_id in self._showing(rows) if read_again else ():
                shown[tuple(at)][offset, number or 0] = run_id, bucket.expires
        if read_again is not None:
            lessons.take_topic(self.store, shown, read_again)
        lessons.take_kept(self.store, self._keys)
        lessons.take_open_runs(self.store, read_lake(self.store).histories, self._keys)
        return lessons

    def _showing(self, rows: pa.Table) -> Iterator[Sequence[Any]]:
        """(topic, partition, offset, number in its record, run) of the events of which a field was
        masked by a rule whose values are remembered."""
        columns = ("kafka_topic", "kafka_partition", "kafka_offset", "record_index", "run_id")
        made = declarations(with_record_index(rows), *columns)
        shows = pc.is_in(made["rule"], pa.array(sorted(self._propagating), pa.string()))
        found = made.filter(shows).select(columns)
        yield from zip(*(column.to_pylist() for column in found.columns), strict=True)

    def _check_keys(self, rows: pa.Table) -> None:
        """Without the keys of hashed masks nobody can tell them from text."""
        known = {"", *self._keys.keys}
        for key_id in rows["key_id"].unique().to_pylist():
            if key_id not in known:
                raise LakeError(
                    f"rows are hashed under key {key_id}, which is not in the key ring",
                    code="key-gone",
                    hint="give the ring that the rows were written with (--keys)",
                )


def _runs_where(store: Store, where: str | None) -> list[str] | None:
    """The runs of which an event meets the condition; None: no condition."""
    if where is None:
        return None
    sql = f"SELECT DISTINCT run_id FROM stored_events WHERE ({where})"
    return [run_id for (run_id,) in query(read_lake(store), sql).rows]


def buckets_of(files: Iterable[FileEntry]) -> list[Bucket]:
    """The buckets of files, sorted."""
    found = {parse_bucket(file.path) for file in files}
    return sorted(bucket for bucket in found if bucket is not None)
