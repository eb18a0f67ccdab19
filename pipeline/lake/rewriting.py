"""Rewriters: whoever removes or replaces committed files (sweep, compaction, erasure).

One rewriter works on a bucket at a time, by a numbered log of its own as the partitions have one.
A file name is never used twice, so a rewriter that was only frozen can do no harm.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pipeline.errors import LakeError, LostPartition
from pipeline.faultpoints import at
from pipeline.lake.entries import (
    PLAIN,
    SEVERAL,
    Cut,
    FileEntry,
    Rewrite,
    RewriteIntent,
    decode,
    digest,
    encode,
)
from pipeline.lake.layout import Bucket
from pipeline.lake.numbered import NumberedLog
from pipeline.lake.store import Store


@dataclass(frozen=True, slots=True)
class Claim:
    """A bucket claimed for one rewrite."""

    intent: RewriteIntent
    intent_digest: str


class BucketLog:
    """The rewrites of one bucket, in order."""

    def __init__(self, store: Store, bucket: Bucket) -> None:
        self.store, self.bucket = store, bucket
        self._entries = NumberedLog(store, bucket.log_folder)

    def claim(self, purpose: str, claim: str, now_us: int) -> Claim:
        """Claims the bucket, closing the claim of a rewriter that never finished.

        Plan only after this: no other rewriter changes the bucket any more, writers only add.
        """
        self.close_left(claim)
        last = self.last_number()
        previous = self._last_digest(last) if last else ""
        intent = RewriteIntent(
            self.bucket.table,
            self.bucket.retention_class,
            self.bucket.expires,
            last + 1,
            purpose,
            now_us,
            claim,
            previous,
        )
        at("rewrite-intent.before")
        if not self._entries.write(intent.number, "intent", intent):
            raise self._lost()
        at("rewrite-intent.after")
        return Claim(intent, digest(encode(intent)))

    def close_left(self, claim: str, *, before_us: int | None = None) -> None:
        """Closes the claim of a rewriter that has not finished, if it began before `before_us`."""
        number = self.last_number() + 1
        document = self._entries.read(number, "intent")
        if document is None:
            return
        left = decode(RewriteIntent, document)
        if before_us is None or left.now_us < before_us:
            self._write_commit(self._entry(left, claim, digest(document), abandoned=True))

    def last_number(self) -> int:
        """The number of the last finished rewrite, 0 if there was none."""
        return self._entries.last_number(self._cut_number() + 1)

    def cut(self) -> Cut | None:
        """What the oldest rewrites came to, if they were summed up and their entries deleted."""
        keys = [item.key for item in self.store.walk(self.bucket.cuts_folder)]
        return decode(Cut, self.store.get(max(keys))) if keys else None

    def cut_up_to(self, number: int) -> int:
        """Sums the rewrites up to `number` up and deletes their entries; how many there were.

        Right only where nothing that they removed or added is named anywhere else any more.
        """
        done, before = self.rewrites(), self.cut()
        finished = (
            *(before.finished if before else ()),
            *(r.number for r in done if not r.abandoned),
        )
        bucket = self.bucket
        cut = Cut(
            bucket.table,
            bucket.retention_class,
            bucket.expires,
            number,
            tuple(each for each in finished if each <= number),
            self._last_digest(number),
        )
        self.store.put_if_absent(f"{bucket.cuts_folder}/{number:012}", encode(cut))
        doomed = [
            item.key
            for item in self.store.walk(bucket.log_folder)
            if int(item.key.rpartition("/")[2][:12]) <= number
        ]
        delete_all(self.store, sorted(doomed))
        return len(doomed)

    def rewrite_at(self, number: int) -> Rewrite | None:
        """Rewrite `number`; None if it has not finished."""
        document = self._entries.read(number, "commit")
        return decode(Rewrite, document) if document is not None else None

    def rewrites(self, after: int = 0) -> tuple[Rewrite, ...]:
        """The finished rewrites whose number is above `after`, in order."""
        numbers = range(max(after, self._cut_number()) + 1, self.last_number() + 1)
        documents = (self.store.get(self._entries.key(number, "commit")) for number in numbers)
        return tuple(decode(Rewrite, document) for document in documents)

    def finish(
        self,
        claim: Claim,
        removed: Iterable[FileEntry],
        added: Iterable[FileEntry],
        origins: Mapping[str, Mapping[str, int]] | None = None,
        before_delete: Callable[[], None] = lambda: None,
        *,
        ruleset: str = "",
        rulesets_before: Iterable[str] = (),
        further: Mapping[str, int] | None = None,
    ) -> Rewrite:
        """Makes the rewrite part of the lake, then deletes what it removed.

        `ruleset` and `rulesets_before` are given where rows were masked again, `further` where
        records were found to hold several events.  A file that cannot be deleted does not keep the
        others: the first error is raised at last.
        """
        entry = self._entry(
            claim.intent,
            claim.intent.claim,
            claim.intent_digest,
            removed=tuple(removed),
            added=tuple(added),
            origins=origins or {},
            ruleset=ruleset,
            rulesets_before=tuple(rulesets_before),
            further=further or {},
        )
        at("rewrite-commit.before")
        self._write_commit(entry)
        at("rewrite-commit.after")
        before_delete()
        delete_all(self.store, [file.path for file in entry.removed])
        return entry

    def _write_commit(self, entry: Rewrite) -> None:
        if not self._entries.write(entry.number, "commit", entry):
            raise self._lost()

    def _entry(
        self,
        intent: RewriteIntent,
        claim: str,
        previous: str,
        *,
        removed: tuple[FileEntry, ...] = (),
        added: tuple[FileEntry, ...] = (),
        origins: Mapping[str, Mapping[str, int]] | None = None,
        abandoned: bool = False,
        ruleset: str = "",
        rulesets_before: tuple[str, ...] = (),
        further: Mapping[str, int] | None = None,
    ) -> Rewrite:
        return Rewrite(
            intent.table,
            intent.retention_class,
            intent.expires,
            intent.number,
            intent.purpose,
            intent.now_us,
            claim,
            previous,
            removed,
            added,
            origins or {},
            abandoned,
            ruleset,
            rulesets_before,
            further or {},
            SEVERAL if further else PLAIN,
        )

    def _cut_number(self) -> int:
        """The number up to which entries may be gone; a log that begins with 1 was not cut."""
        if self._entries.is_committed(1):
            return 0
        cut = self.cut()
        return cut.number if cut else 0

    def _last_digest(self, number: int) -> str:
        document = self._entries.read(number, "commit")
        if document is not None:
            return digest(document)
        cut = self.cut()
        return cut.last_digest if cut else ""

    def _lost(self) -> LostPartition:
        return LostPartition(
            f"another rewriter works on {self.bucket.folder}",
            code="lost-bucket",
            hint="let it finish, then run this again",
        )


def delete_all(store: Store, keys: Iterable[str]) -> None:
    """Deletes every file that can be deleted, then raises the first error, if there was one."""
    errors: list[LakeError] = []
    for key in keys:
        try:
            store.delete(key)
        except LakeError as error:
            errors.append(error)
        at("remove.after")
    if errors:
        raise errors[0]
