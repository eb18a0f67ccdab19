"""The sweep: plan, apply, read back.

1. List what has ended: buckets by their folders' names, unfinished files by theirs.
2. Write the intent; what an earlier sweep left open is taken over.
3. Each bucket: claim, tombstone, keep what is held, commit the rewrite, delete, list again.
4. Delete unfinished files of ended buckets, and on request files outside the live set; let go of
   what is overdue in the state of open runs.
5. Delete copies whose deadline has come.
6. Write the receipt: what is gone, what is held, what would not go.

It may stop at any instruction and be run again, and two may run at once: one of them ends with
`LostPartition`.
"""

import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pipeline.errors import LakeError, LostPartition, PipelineError
from pipeline.lake.commits import system_clock_us
from pipeline.lake.layout import AUDIT, Bucket, parse_bucket
from pipeline.lake.moving import PURPOSE as SHORTENING
from pipeline.lake.removal import Going, Remover
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import VERSIONED, VERSIONED_HINT, Store
from pipeline.lake.sweeping import Rewriter
from pipeline.retention.copies import Copier, Copy, read_copies
from pipeline.retention.holds import COLUMNS, HoldBook, read_holds
from pipeline.retention.ledger import (
    BucketReceipt,
    BucketTask,
    Failure,
    Ledger,
    Receipt,
    RemovalIntent,
)
from pipeline.retention.plan import Plan, plan_retention
from pipeline.retention.survey import ended_buckets, survey, unfinished_files
from pipeline.retention.tombstones import entomb, read_tombstone, write_tombstone
from redactors import KeyRing

PURPOSE: Final = "sweep"

HELD: Final = f"{AUDIT}/held"

KEEPING: Final = frozenset({"compact", "retry", "rescrub", SHORTENING})
"""Purposes of rewrites that remove no row."""


_VERSIONED: Final = Failure("the object store", "versioned", f"{VERSIONED}: {VERSIONED_HINT}")


class OpenState(Protocol):
    """The state of open runs, by folder, one a partition."""

    def due(self, now_us: int) -> tuple[str, ...]:
        """The folders in which something is overdue."""

    def let_go(self, folder: str, now_us: int) -> None:
        """Lets go of it; raises `PipelineError` if that cannot be done now."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One sweep as rewriter `claim` (a random id) on behalf of `by`.

    `clock_us` gives epoch microseconds; `keys` names runs in tombstones (None: only counts);
    copies made on `host` can be reached.  `open_state` is given where no ingest tends it.
    """

    store: Store
    claim: str
    by: str
    clock_us: Callable[[], int]
    keys: KeyRing | None = None
    host: str = field(default_factory=platform.node)
    open_state: OpenState | None = None

    def sweep(self, *, with_strays: bool = False) -> Receipt | None:
        """Removes what has ended; None if there was nothing to do.

        `with_strays` also looks through the whole lake for files outside the live set, which costs
        as much as the lake is large.  Raises `LostPartition` if another sweep takes over.
        """
        # 1
        now_us = self.clock_us()
        remover = self._remover(now_us)
        book = HoldBook(self.store)
        buckets = [b for b in ended_buckets(self.store, now_us) if self._has_due(b, remover, book)]
        unfinished = [file.key for file in unfinished_files(self.store, now_us)]
        unfinished += self.store.left_behind()
        states = self.open_state.due(now_us) if self.open_state else ()
        rewriter = Rewriter(self.store, self.claim, now_us)
        outside = rewriter.find_strays() if with_strays else ()
        ledger = Ledger(self.store, self.claim)
        copies = [copy for copy in read_copies(self.store) if copy.deadline_us <= now_us]
        left = ledger.left_open()
        if not (buckets or unfinished or outside or copies or states or left):
            return None
        # 2
        intent = ledger.begin(PURPOSE, now_us, self.by, [task_of(self.store, b) for b in buckets])
        settle(self.store, left, self.claim)
        # 3
        failures = [] if not self.store.keeps_versions() else [_VERSIONED]
        receipts = [self._remove(task, remover, now_us, failures) for task in intent.buckets]
        # 4
        failures += self._delete_files(unfinished)
        strays = rewriter.find_strays() if outside else ()
        failures += self._delete_files(strays)
        stuck = list(self._let_go(states, now_us))
        # 5
        failures += self._remove_copies(copies)
        known = read_copies(self.store)
        # 6
        return ledger.finish(
            intent,
            self.clock_us(),
            self.by,
            buckets=receipts,
            strays=strays,
            unfinished=unfinished,
            failures=[*failures, *stuck],
            copies=[copy.location for copy in copies if copy not in known],
            states=[state for state in states if state not in {each.what for each in stuck}],
        )

    def _has_due(self, bucket: Bucket, remover: Remover, book: HoldBook) -> bool:
        """Whether anything would go: a bucket held altogether is not claimed for nothing, nor read
        again before something is added to it or a hold is released."""
        files = sorted(item.key for item in self.store.walk(bucket.folder))
        if not files:
            self.store.remove_empty(bucket.folder)
            return False
        if remover.keep_in(bucket) is None:
            return True
        mark = f"{_held_folder(bucket)}/{book.read().last_release:012}-{_digest(files)}"
        if self.store.exists(mark):
            return False
        try:
            going = remover.preview(bucket, COLUMNS)
        except LakeError:
            return True  # it fails again in its turn, and is noted then
        if going.files or going.strays or going.came_back:
            return True
        self.store.remove_folder(_held_folder(bucket))
        self.store.put_if_absent(mark, b"")
        return False

    def _remove(
        self, task: BucketTask, remover: Remover, now_us: int, failures: list[Failure]
    ) -> BucketReceipt:
        """Step 3 for one bucket; what fails is noted, and does not keep the others."""
        going = None
        try:
            # One taken over from an erasure may not have ended.
            if task.bucket.starts_us <= now_us:
                going = remover.remove(task.bucket)
                if not going.kept:
                    self.store.remove_folder(_held_folder(task.bucket))
        except LostPartition:
            raise
        except LakeError as error:
            failures.append(Failure(task.bucket.folder, error.code, str(error)))
        return bucket_receipt(
            self.store,
            task,
            held_rows=going.kept if going else 0,
            came_back=len(going.came_back) if going else 0,
            left=remover.standing(task.bucket),
        )

    def _remover(self, now_us: int) -> Remover:
        # Asked anew for each bucket: a hold counts from the moment it is added.
        book = HoldBook(self.store)
        return Remover(
            self.store,
            purpose=PURPOSE,
            claim=self.claim,
            now_us=now_us,
            keep_in=lambda bucket: book.read().keep_in(bucket),
            note=self._note,
            with_strays=True,
        )

    def _note(self, going: Going) -> None:
        write_tombstone(self.store, entomb(going, PURPOSE, self.clock_us(), self.keys))

    def _remove_copies(self, copies: Sequence[Copy]) -> Iterator[Failure]:
        copier = Copier(self.store, self.by, self.host, self.clock_us)
        for copy in copies:
            try:
                copier.remove(copy)
            except LakeError as error:
                yield Failure(copy.location, error.code, str(error))

    def _let_go(self, states: Sequence[str], now_us: int) -> Iterator[Failure]:
        for folder in states:
            assert self.open_state is not None
            try:
                self.open_state.let_go(folder, now_us)
            except PipelineError as error:
                yield Failure(folder, error.code, str(error))

    def _delete_files(self, keys: Sequence[str]) -> Iterator[Failure]:
        for key in keys:
            try:
                self.store.delete(key)
            except LakeError as error:
                yield Failure(key, error.code, str(error))


def _held_folder(bucket: Bucket) -> str:
    """Where it is marked that the bucket was looked at and found to be held."""
    return f"{HELD}/{bucket.table}/{bucket.retention_class}/{bucket.expires}"


def _digest(keys: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:32]


def task_of(store: Store, bucket: Bucket) -> BucketTask:
    """A bucket as an intent names it: what has been rewritten so far is not its doing."""
    return BucketTask(
        bucket.table, bucket.retention_class, bucket.expires, BucketLog(store, bucket).last_number()
    )


def settle(store: Store, left: RemovalIntent | None, claim: str) -> None:
    """Closes what an entry that was taken over had claimed: nothing of it comes any more."""
    for task in left.buckets if left else ():
        BucketLog(store, task.bucket).close_left(claim)


def bucket_receipt(
    store: Store,
    task: BucketTask,
    *,
    held_rows: int = 0,
    came_back: int = 0,
    left: tuple[str, ...] = (),
) -> BucketReceipt:
    """What rewrites since the intent removed for good, by their tombstones, and what they moved."""
    done = BucketLog(store, task.bucket).rewrites(task.after)
    rewrites = [each.number for each in done if each.removed and each.purpose not in KEEPING]
    moved = [
        file.rows
        for each in done
        if each.purpose == SHORTENING
        for file in each.added
        if parse_bucket(file.path) != task.bucket
    ]
    tombstones = [read_tombstone(store, task.bucket, number) for number in rewrites]
    return BucketReceipt(
        task.table,
        task.retention_class,
        task.expires,
        tuple(rewrites),
        sum(tombstone.files for tombstone in tombstones),
        sum(tombstone.rows for tombstone in tombstones),
        sum(tombstone.size_bytes for tombstone in tombstones),
        held_rows,
        came_back,
        left,
        sum(moved),
    )


def plan_lake(location: str, now_us: int | None = None) -> Plan:
    """What a sweep of the lake at `location` would do, now or at another instant."""
    store = Store.open(location)
    instant_us = system_clock_us() if now_us is None else now_us
    return plan_retention(survey(store, instant_us, read_holds(store)), instant_us)
