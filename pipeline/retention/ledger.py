"""The ledger of removals: numbered entries in `_audit/removals/`, an intent and then a receipt.

Each names the SHA-256 of the document before it, so that none can be changed or taken out unseen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.errors import LostPartition
from pipeline.faultpoints import at
from pipeline.lake.entries import digest
from pipeline.lake.layout import AUDIT, Bucket
from pipeline.lake.numbered import NumberedLog
from pipeline.lake.store import Store
from pipeline.retention.documents import FORMAT, decode
from pipeline.slices import Table

REMOVALS: Final = f"{AUDIT}/removals"


@dataclass(frozen=True, slots=True, order=True)
class BucketTask:
    """A bucket to remove rows from; rewrites above number `after` are this entry's to account."""

    table: Table
    retention_class: str
    expires: str
    after: int

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.table, self.retention_class, self.expires)


@dataclass(frozen=True, slots=True)
class RemovalIntent:
    """What is about to be removed; `purpose` as in the rewrites, `by` who asked for it.

    `about` names what an erasure removes (pseudonyms), `reason` why.
    """

    number: int
    purpose: str
    claim: str
    now_us: int
    by: str
    buckets: tuple[BucketTask, ...]
    about: tuple[str, ...]
    reason: str
    previous: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class BucketReceipt:
    """What is gone of a bucket, by the rewrites of these numbers; `held_rows` stay by a hold, and
    `moved_rows` lie in buckets that end sooner.

    `came_back` counts files that had to be deleted once more.  `left` names files that stand there
    though they were removed: listed again after the removal, this must be empty.
    """

    table: Table
    retention_class: str
    expires: str
    rewrites: tuple[int, ...]
    files: int
    rows: int
    size_bytes: int
    held_rows: int = 0
    came_back: int = 0
    left: tuple[str, ...] = ()
    moved_rows: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """What could not be removed: a bucket's folder, a file or a copy, with the error's code."""

    what: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was removed.  `strays` and `unfinished` are keys of files that were no part of the lake.

    `copies` are the locations of copies that are gone, `states` the folders of open-run state that
    let go of what was overdue.  `abandoned`: the intent was another's that
    never finished; the next entry does its work.
    """

    number: int
    purpose: str
    claim: str
    now_us: int
    finished_us: int
    by: str
    previous: str
    buckets: tuple[BucketReceipt, ...] = ()
    strays: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    copies: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    abandoned: bool = False
    format: int = FORMAT

    @property
    def is_complete(self) -> bool:
        """Whether everything went that was to go."""
        return not self.failures and not any(bucket.left for bucket in self.buckets)


@dataclass(frozen=True, slots=True)
class Broken:
    """A place where the ledger's chain does not hold."""

    number: int
    what: str


class Ledger:
    """Reads and extends the ledger as writer `claim`."""

    def __init__(self, store: Store, claim: str) -> None:
        self._store, self._claim = store, claim
        self._entries = NumberedLog(store, REMOVALS)

    def left_open(self) -> RemovalIntent | None:
        """The intent of a removal that has not finished, whoever began it."""
        document = self._entries.read(self._entries.last_number(1) + 1, "intent")
        return decode(RemovalIntent, document) if document is not None else None

    def begin(
        self,
        purpose: str,
        now_us: int,
        by: str,
        buckets: Sequence[BucketTask],
        *,
        about: tuple[str, ...] = (),
        reason: str = "",
    ) -> RemovalIntent:
        """Writes an intent; one left open is closed first and its buckets are taken over.

        Whoever began that one finds its entry closed and stops (`LostPartition`).
        """
        last = self._entries.last_number(1)
        tasks = {task.bucket: task for task in buckets}
        if (open_intent := self.left_open()) is not None:
            tasks |= {task.bucket: task for task in open_intent.buckets}
            self.finish(open_intent, now_us, by, abandoned=True)
            last += 1
        intent = RemovalIntent(
            last + 1,
            purpose,
            self._claim,
            now_us,
            by,
            tuple(sorted(tasks.values())),
            about,
            reason,
            self._digest_of(last),
        )
        at("removal-intent.before")
        if not self._entries.write(intent.number, "intent", intent):
            raise _lost()
        at("removal-intent.after")
        return intent

    def finish(
        self,
        intent: RemovalIntent,
        finished_us: int,
        by: str,
        *,
        buckets: Sequence[BucketReceipt] = (),
        strays: Sequence[str] = (),
        unfinished: Sequence[str] = (),
        failures: Sequence[Failure] = (),
        copies: Sequence[str] = (),
        states: Sequence[str] = (),
        abandoned: bool = False,
    ) -> Receipt:
        """Writes the receipt of an intent; `LostPartition` if another closed it meanwhile."""
        receipt = Receipt(
            intent.number,
            intent.purpose,
            self._claim,
            intent.now_us,
            finished_us,
            by,
            digest(self._store.get(self._entries.key(intent.number, "intent"))),
            tuple(buckets),
            tuple(strays),
            tuple(unfinished),
            tuple(failures),
            tuple(copies),
            tuple(states),
            abandoned,
        )
        at("receipt.before")
        if not self._entries.write(intent.number, "commit", receipt):
            raise _lost()
        at("receipt.after")
        return receipt

    def entries(self) -> Iterator[tuple[RemovalIntent, Receipt | None]]:
        """Every entry in order; the last one's receipt may be missing."""
        for number in range(1, self._entries.last_number(1) + 2):
            intent = self._entries.read(number, "intent")
            receipt = self._entries.read(number, "commit")
            if intent is not None:
                yield (
                    decode(RemovalIntent, intent),
                    decode(Receipt, receipt) if receipt is not None else None,
                )

    def check(self) -> tuple[Broken, ...]:
        """Where the chain of digests does not hold."""
        numbers = [int(item.key.rpartition("/")[2][:12]) for item in self._store.walk(REMOVALS)]
        broken: list[Broken] = []
        previous = ""
        for number in range(1, max(numbers, default=0) + 1):
            intent = self._entries.read(number, "intent")
            receipt = self._entries.read(number, "commit")
            if intent is None:
                broken.append(Broken(number, "the intent is missing"))
            elif decode(RemovalIntent, intent).previous != previous:
                broken.append(Broken(number, "the intent does not follow the receipt before it"))
            if receipt is None and number < max(numbers):
                broken.append(Broken(number, "the receipt is missing"))
            if intent and receipt and decode(Receipt, receipt).previous != digest(intent):
                broken.append(Broken(number, "the receipt does not follow its intent"))
            previous = digest(receipt) if receipt else ""
        return tuple(broken)

    def head(self) -> str:
        """The digest of the last receipt: kept elsewhere, it pins the whole ledger."""
        return self._digest_of(self._entries.last_number(1))

    def _digest_of(self, number: int) -> str:
        return digest(self._store.get(self._entries.key(number, "commit"))) if number else ""


def _lost() -> LostPartition:
    return LostPartition(
        "another sweep or erasure works on this lake",
        code="lost-ledger",
        hint="let it finish, then run this again",
    )
