"""Rewriters: whoever removes or replaces committed files (sweep, compaction, erasure).

One rewriter works on a bucket at a time, by a numbered log of its own as the partitions have one.
A file name is never used twice, so a rewriter that was only frozen can do no harm.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import LostPartition
from pipeline.faultpoints import at
from pipeline.lake.entries import FileEntry, Rewrite, RewriteIntent, decode, digest, encode
from pipeline.lake.layout import Bucket, EntryKind
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
        last = self._entries.last_number(1)
        previous = self._digest(last, "commit") if last else ""
        if (open_document := self._entries.read(last + 1, "intent")) is not None:
            left = decode(RewriteIntent, open_document)
            closing = self._entry(left, claim, digest(open_document), abandoned=True)
            self._write_commit(closing)
            last, previous = last + 1, digest(encode(closing))
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

    def finish(
        self, claim: Claim, removed: Iterable[FileEntry], added: Iterable[FileEntry]
    ) -> Rewrite:
        """Makes the rewrite part of the lake, then deletes what it removed."""
        entry = self._entry(
            claim.intent,
            claim.intent.claim,
            claim.intent_digest,
            removed=tuple(removed),
            added=tuple(added),
        )
        at("rewrite-commit.before")
        self._write_commit(entry)
        at("rewrite-commit.after")
        for file in entry.removed:
            self.store.delete(file.path)
            at("remove.after")
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
        abandoned: bool = False,
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
            abandoned,
        )

    def _digest(self, number: int, kind: EntryKind) -> str:
        return digest(self.store.get(self._entries.key(number, kind)))

    def _lost(self) -> LostPartition:
        return LostPartition(
            f"another rewriter works on {self.bucket.folder}",
            code="lost-bucket",
            hint="let it finish, then run this again",
        )
