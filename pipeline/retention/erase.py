"""Erasure by subject: every row about somebody, under any key, out of every file.

1. Name the subject as the lake does: its pseudonyms under each label and each key.
2. Look through the live files for rows that have one of them in any column.
3. Write the intent, with the pseudonyms and never the subject itself.
4. Each bucket: claim, tombstone, publish the rows that stay, commit, delete, list again.
5. Look again: nothing may be found but what is held.
6. Write the receipt; what may still hold the subject stands in it as not removed.
"""

import getpass
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import LakeError, LostPartition, UsageError
from pipeline.lake.commits import system_clock_us
from pipeline.lake.layout import LOG, Bucket, new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.removal import Flags, Going, Keep, Remover
from pipeline.lake.store import Store
from pipeline.retention.copies import read_copies
from pipeline.retention.holds import HoldBook
from pipeline.retention.ledger import BucketReceipt, BucketTask, Failure, Ledger, Receipt
from pipeline.retention.sweep import bucket_receipt, settle, task_of
from pipeline.retention.tombstones import entomb, write_tombstone
from redactors import KeyRing, Ruleset, parse_document
from redactors.keys import default_key_file
from redactors.masks import ID_LABEL, SUBJECT_LABEL, Masks
from redactors.ruleset import FieldRule, Recognizer, Rule

PURPOSE: Final = "erase"


def name_subject(
    subjects: Iterable[str], rulesets: Iterable[Ruleset], keys: KeyRing
) -> tuple[str, ...]:
    """Step 1: the pseudonyms that the rulesets' hashing labels and `keys` give to the subjects."""
    labels = {SUBJECT_LABEL, ID_LABEL}
    for ruleset in rulesets:
        every: tuple[Rule | FieldRule | Recognizer, ...] = (
            *ruleset.rules,
            *ruleset.fields,
            *ruleset.recognizers,
        )
        labels |= {rule.label for rule in every if rule.action == "hash"}
    names: set[str] = set()
    for key_id in keys.keys:
        masks = Masks(labels, keys.with_current(key_id))
        for subject in subjects:
            value = subject.encode("utf-8", "surrogatepass")
            names |= (
                {subject}
                if masks.is_mask(subject)
                else {masks.hashed(each, value) for each in labels}
            )
    return tuple(sorted(names))


def rows_naming(rows: pa.Table, pseudonyms: Sequence[str]) -> Flags:
    """Which rows have one of the pseudonyms in any column, whole or inside a text.

    Looked for is the part after the key id: the rest of a mask may be escaped where it stands.
    """
    tokens = sorted({pseudonym.rpartition(":")[2].rstrip("]") for pseudonym in pseudonyms})
    pattern = "|".join(tokens)  # letters and digits only
    flags = [_matches(column.combine_chunks(), pattern) for column in rows.columns]
    return reduce(or_, flags, np.zeros(rows.num_rows, np.bool_))


def _matches(values: "pa.Array[Any]", pattern: str) -> Flags:
    """Which elements of an array of any type hold a text that matches."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        found = pc.match_substring_regex(values, pattern).fill_null(False)
        flags: Flags = found.to_numpy(zero_copy_only=False)
        return flags
    none = np.zeros(len(values), np.bool_)
    if pa.types.is_list(values.type):
        inner = _matches(pc.list_flatten(values), pattern)
        none[pc.list_parent_indices(values).to_numpy()[inner]] = True
    elif pa.types.is_struct(values.type):
        return reduce(or_, (_matches(each, pattern) for each in _fields(values)), none)
    return none


def _fields(values: "pa.Array[Any]") -> "list[pa.Array[Any]]":
    assert isinstance(values, pa.StructArray)
    return values.flatten()


@dataclass(frozen=True, slots=True)
class Eraser:
    """One erasure as rewriter `claim` on behalf of `by`; `clock_us` gives epoch microseconds."""

    store: Store
    claim: str
    by: str
    clock_us: Callable[[], int]
    keys: KeyRing

    def erase(self, subjects: Sequence[str], reason: str) -> Receipt | None:
        """Steps 1 to 6; None if no row names the subjects.

        A row that is held stays, and is counted.  Raises `LostPartition` if another removal takes
        over.
        """
        # 1
        pseudonyms = self.pseudonyms(subjects)
        now_us = self.clock_us()
        remover = self._remover(pseudonyms, now_us)
        # 2
        buckets = [bucket for bucket in self._buckets() if _concerned(remover, bucket)]
        ledger = Ledger(self.store, self.claim)
        left = ledger.left_open()
        if not (buckets or left):
            return None
        # 3
        tasks = [task_of(self.store, bucket) for bucket in buckets]
        intent = ledger.begin(PURPOSE, now_us, self.by, tasks, about=pseudonyms, reason=reason)
        settle(self.store, left, self.claim)
        # 4
        failures: list[Failure] = []
        for task in intent.buckets:
            failures += self._erase(task.bucket, remover)
        # 5
        failures += self._look_again(pseudonyms, remover, now_us)
        receipts = [self._receipt(task, pseudonyms, now_us) for task in intent.buckets]
        # 6
        return ledger.finish(intent, self.clock_us(), self.by, buckets=receipts, failures=failures)

    def pseudonyms(self, subjects: Sequence[str]) -> tuple[str, ...]:
        """How the lake may name the subjects, by every ruleset that its log has kept."""
        if not any(subjects):
            raise UsageError("no subject was given", code="usage", hint="--subject NAME")
        kept = [self.store.get(item.key) for item in self.store.walk(f"{LOG}/rulesets")]
        return name_subject(subjects, map(parse_document, kept), self.keys)

    def _buckets(self) -> list[Bucket]:
        files = read_lake(self.store).files.values()
        found = {parse_bucket(file.path) for entries in files for file in entries}
        return sorted(bucket for bucket in found if bucket is not None)

    def _erase(self, bucket: Bucket, remover: Remover) -> Iterator[Failure]:
        try:
            remover.remove(bucket)
        except LostPartition:
            raise
        except LakeError as error:
            yield Failure(bucket.folder, error.code, str(error))

    def _look_again(
        self, pseudonyms: Sequence[str], remover: Remover, now_us: int
    ) -> Iterator[Failure]:
        """Step 5; also what lies outside the live set, and copies, which nobody can look into."""
        for bucket in self._buckets():
            if _concerned(remover, bucket):
                yield Failure(bucket.folder, "not-erased", "rows that name the subject are left")
        lake = read_lake(self.store)
        strays = lake.strays()
        for key in (*strays.outside, *strays.pending):
            if _names(self.store.get_or_none(key), pseudonyms):
                what = "a file that is no part of the lake yet names the subject: sweep, then again"
                yield Failure(key, "not-erased", what)
        for copy in read_copies(self.store):
            what = "the copy was made before and may name the subject: remove it"
            yield Failure(copy.location, "copy-unchecked", what)

    def _receipt(self, task: BucketTask, pseudonyms: Sequence[str], now_us: int) -> BucketReceipt:
        everything = self._remover(pseudonyms, now_us, holding=False)
        try:
            held_rows = everything.preview(task.bucket).rows.num_rows
        except LakeError:
            held_rows = 0  # it cannot be read, and stands among the failures
        left = everything.standing(task.bucket)
        return bucket_receipt(self.store, task, held_rows=held_rows, left=left)

    def _remover(self, pseudonyms: Sequence[str], now_us: int, *, holding: bool = True) -> Remover:
        """Removes the rows that name the subject, but for those that are held."""

        book = HoldBook(self.store)

        def keep_in(bucket: Bucket) -> Keep:
            held = book.read().keep_in(bucket) if holding else None

            def keep(rows: pa.Table) -> Flags:
                kept: Flags = ~rows_naming(rows, pseudonyms)
                return kept if held is None else kept | held(rows)

            return keep

        return Remover(
            self.store,
            purpose=PURPOSE,
            claim=self.claim,
            now_us=now_us,
            keep_in=keep_in,
            note=self._note,
            with_strays=False,
        )

    def _note(self, going: Going) -> None:
        write_tombstone(self.store, entomb(going, PURPOSE, self.clock_us(), self.keys))


def erase_in_lake(
    location: str, subjects: Sequence[str], keys: Path | None, reason: str
) -> Receipt | None:
    """Erases subjects from the lake at `location`; `keys` is a ring's file (None: the default)."""
    ring = KeyRing.load(keys or default_key_file())
    eraser = Eraser(Store.open(location), new_claim(), getpass.getuser(), system_clock_us, ring)
    return eraser.erase(subjects, reason)


def _concerned(remover: Remover, bucket: Bucket) -> bool:
    try:
        return bool(remover.preview(bucket).files)
    except LakeError:
        return True  # it cannot be read: that is for the receipt to say


def _names(data: bytes | None, pseudonyms: Sequence[str]) -> bool:
    if data is None:
        return False
    try:
        return bool(rows_naming(from_parquet(data), pseudonyms).any())
    except (pa.ArrowException, OSError):
        return True  # nobody can say
