"""Re-redaction: stored rows are masked again under other rules, and nothing is unmasked.

1. Choose the runs; learn over all their events what they show.
2. Keep what was learnt, sealed, and the ruleset's text; write the intent of the ledger; what
   another removal left open is taken over.
3. Each bucket of events: claim, mask some files again into one, commit the rewrite, destroy the
   keys of those that were sealed, delete; until none is left.
4. The same for run records, which follow their events as they stand then, and for dead letters.
5. Where no ingest is at work, mask the state of the open runs again, by a commit without offsets.
6. Delete files that are no part of the lake: they may hold what is masked now.
7. Write the receipt; copies that were made before stand in it as not removed.

It may be stopped at any instruction and be run again: rows name the ruleset they stand under.  What
a hold keeps is left as it is.
"""

import getpass
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from pipeline.config import IngestConfig
from pipeline.errors import LakeError, LostPartition, PipelineError
from pipeline.lake.commits import system_clock_us
from pipeline.lake.documents import store_ruleset
from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import Bucket, new_claim, state_folder
from pipeline.lake.parquet import join_rows
from pipeline.lake.proof.topic import Source
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.writer import NewFile, destroy_keys, publish_files
from pipeline.retention.copies import read_copies
from pipeline.retention.ledger import Failure, Ledger, Receipt
from pipeline.retention.sweep import bucket_receipt, settle, task_of
from pipeline.retrying import ReadAgain, reader_again
from pipeline.review.rescrub.learning import forget
from pipeline.review.rescrub.open_state import scrub_open_runs
from pipeline.review.rescrub.quoted import Quotations
from pipeline.review.rescrub.scrubbing import Counts
from pipeline.review.rescrub.work import Progress, Work
from redactors import KeyRing, Ruleset, load_or_create_keys, load_ruleset, ruleset_document

PURPOSE: Final = "rescrub"

GROUP_BYTES: Final = 32 << 20
"""Size of the files that are rewritten into one: they are held in memory together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, or would be: the new ruleset's digest, counts by table, files that were
    replaced, the folders of open-run state that holds what is to be masked still; without a receipt
    nothing was to do, or nothing was done."""

    ruleset: str
    counts: Mapping[str, Counts]
    files: int
    open_runs: tuple[str, ...] = ()
    receipt: Receipt | None = None


@dataclass(slots=True)
class Rescrubber:
    """One re-redaction as rewriter `claim` on behalf of `by`; `clock_us` gives epoch microseconds.

    `where` is a condition on `events`: the runs that have such an event are masked again, whole
    (None: everything is).  `read_again` reads the topics, to learn what is masked in them (None:
    what is masked is not known).  `with_open_runs` masks their state, too: an ingest that is at
    work there would have lost its partition.
    """

    store: Store
    claim: str
    by: str
    clock_us: Callable[[], int]
    ruleset: Ruleset
    keys: KeyRing
    where: str | None = None
    read_again: ReadAgain | None = None
    with_open_runs: bool = False
    progress: Progress = lambda done, total: None

    def preview(self) -> Outcome:
        """What `rescrub` would do now; changes nothing."""
        work, files = self._work(), 0
        facts = work.wanted()
        for file in work.open_files("events"):
            rows = work.read(file)
            new = work.scrubbers["events"].events(rows, work.chosen(file, rows))
            files += new is not None
            facts.take(rows if new is None else new)
        scrub = _Scrubs(work, Quotations(work.scrubbers["runs"], facts))
        for file in (*work.open_files("runs"), *work.open_files("dead_letters")):
            files += scrub(file, work.read(file)) is not None
        stale = _folders(work.stale_states(facts))
        return Outcome(work.redactor.digest, work.counts(), files, stale)

    def rescrub(self, reason: str = "") -> Outcome:
        """Steps 1 to 7.

        Raises `LostPartition` if another rewriter or removal takes over, `LakeError` if nothing can
        be done at all; doing it again is right.
        """
        # 1
        work = self._work()
        events, others, facts = work.due()
        ledger = Ledger(self.store, self.claim)
        left, now_us = ledger.left_open(), self.clock_us()
        if not (events or others or left):
            stale = work.stale_states(facts) if facts else []
            if not (stale and self.with_open_runs):
                return Outcome(work.redactor.digest, work.counts(), 0, _folders(stale))
        # 2
        work.lessons.keep(self.store, self.keys, now_us)
        store_ruleset(self.store, work.redactor.digest, ruleset_document(self.ruleset))
        tasks = [task_of(self.store, each) for each in (*events, *others)]
        intent = ledger.begin(PURPOSE, now_us, self.by, tasks, about=work.about(), reason=reason)
        settle(self.store, left, self.claim)
        # 3
        buckets = _Buckets(work, self.claim, now_us)
        buckets.scrub(events)
        # 4
        facts = facts or work.facts()
        quotations = Quotations(work.scrubbers["runs"], facts)
        buckets.scrubs = _Scrubs(work, quotations)
        buckets.scrub(others)
        # 5
        stale = work.stale_states(facts)
        states, stuck = self._open_runs(stale, quotations) if self.with_open_runs else ([], [])
        # 6
        strays = Rewriter(self.store, self.claim, now_us).remove_strays()
        # 7
        undone = [*buckets.failures, *stuck]
        waiting = () if self.with_open_runs else _folders(stale)
        if not (undone or waiting):
            forget(self.store)
        failures = [*undone, *self._copies(work)]
        receipts = [bucket_receipt(self.store, task) for task in intent.buckets]
        receipt = ledger.finish(
            intent,
            self.clock_us(),
            self.by,
            buckets=receipts,
            strays=strays,
            failures=failures,
            states=states,
        )
        return Outcome(work.redactor.digest, work.counts(), buckets.files, waiting, receipt)

    def _work(self) -> Work:
        return Work(self.store, self.ruleset, self.keys, self.where, self.read_again, self.progress)

    def _open_runs(
        self, stale: list[tuple[str, int]], quotations: Quotations
    ) -> tuple[list[str], list[Failure]]:
        """Step 5: the folders of the states that changed, and what could not be done."""
        done, stuck = list[str](), list[Failure]()
        for at in stale:
            try:
                if scrub_open_runs(self.store, *at, quotations, self.clock_us):
                    done.append(state_folder(*at))
            except PipelineError as error:
                stuck.append(Failure(state_folder(*at), error.code, str(error)))
        return done, stuck

    def _copies(self, work: Work) -> Iterator[Failure]:
        if any(counts.changed for counts in work.counts().values()):
            for copy in read_copies(self.store):
                what = "the copy was made before and may hold what is masked now: remove it"
                yield Failure(copy.location, "copy-unchecked", what)


def _folders(partitions: list[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(state_folder(*at) for at in partitions)


class _Scrubs:
    """Masks the rows of a file of any table again."""

    def __init__(self, work: Work, quotations: Quotations | None = None) -> None:
        self._work, self._quotations = work, quotations

    def __call__(self, file: FileEntry, rows: pa.Table) -> pa.Table | None:
        scrubber, chosen = self._work.scrubbers[file.table], self._work.chosen(file, rows)
        if file.table == "events":
            return scrubber.events(rows, chosen)
        if file.table == "dead_letters":
            return scrubber.dead_letters(rows, chosen)
        assert self._quotations is not None
        return self._quotations.records(rows, chosen)


class _Buckets:
    """Rewrites buckets, one after the other; what fails is noted, and does not keep the others."""

    def __init__(self, work: Work, claim: str, now_us: int) -> None:
        self._work, self._claim, self._now_us = work, claim, now_us
        self.scrubs = _Scrubs(work)
        self.files = 0
        self.failures: list[Failure] = []

    def scrub(self, buckets: list[Bucket]) -> None:
        """Steps 3 and 4."""
        for bucket in buckets:
            seen: set[str] = set()
            try:
                while self._rewrite(bucket, seen):
                    pass
            except LostPartition:
                raise
            except LakeError as error:
                self.failures.append(Failure(bucket.folder, error.code, str(error)))

    def _rewrite(self, bucket: Bucket, seen: set[str]) -> bool:
        """Makes one file of some that are not among the `seen`; whether others are left."""
        work, store = self._work, self._work.store
        log = BucketLog(store, bucket)
        claim = log.claim(PURPOSE, self._claim, self._now_us)
        files = [file for file in work.files(bucket.table, bucket) if file.path not in seen]
        group = _first(files)
        removed, tables, before = list[FileEntry](), list[pa.Table](), set[str]()
        for file in group:
            seen.add(file.path)
            rows = work.read(file)
            new = self.scrubs(file, rows)
            if new is not None:
                removed.append(file)
                tables.append(new)
                before |= {str(digest) for digest in rows["ruleset"].unique().to_pylist()}
        added: tuple[FileEntry, ...] = ()
        if removed:
            made = NewFile.rewritten(claim.intent, join_rows(tables), bucket)
            added = publish_files(store, [made])
            seen.add(made.key)
        log.finish(
            claim,
            removed,
            added,
            before_delete=lambda: destroy_keys(store, bucket, removed),
            ruleset=work.redactor.digest if removed else "",
            rulesets_before=sorted(before),
        )
        self.files += len(removed)
        return len(group) < len(files)


def _first(files: list[FileEntry]) -> list[FileEntry]:
    """The first files, as many as are rewritten into one."""
    size_bytes = 0
    for count, file in enumerate(files):
        size_bytes += file.size_bytes
        if count and size_bytes > GROUP_BYTES:
            return files[:count]
    return files


def rescrub_lake(
    location: str,
    rules: Path | None,
    keys: Path | None,
    where: str | None,
    reason: str,
    source: Source | None,
    progress: Progress,
    *,
    with_open_runs: bool,
    is_trial: bool,
) -> Outcome:
    """Masks the lake at `location` again under the rules in a file (None: the built-in ones);
    `source` is where its topics are (None: they are not asked)."""
    # What runs showed is in memory from here on: a core file would put it on a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    store, read_again = Store.open(location), None
    if source is not None:
        file = str(source.client_file) if source.client_file else None
        config = IngestConfig(source.bootstrap, "", location, client_config=file)
        read_again = reader_again(store, config)
    rescrubber = Rescrubber(
        store,
        new_claim(),
        getpass.getuser(),
        system_clock_us,
        load_ruleset(rules),
        load_or_create_keys(keys)[0],
        where,
        read_again,
        with_open_runs,
        progress,
    )
    return rescrubber.preview() if is_trial else rescrubber.rescrub(reason)
