"""Moving rows of one bucket to buckets that end sooner.

1. Claim the bucket: no other rewriter changes it from here on.
2. Read it, and ask of each row when it goes now.
3. Publish the rows that go sooner in files of their buckets, and those that stay in one here.
4. Commit the rewrite: what was here is no part of the lake any more, what it became is.
5. Destroy the keys of sealed files that go, and delete.

Rows that were moved have their new deadline; one entry of one log moves them all or none.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.lake.contents import BucketReader, Flags, LiveFile
from pipeline.lake.entries import Rewrite
from pipeline.lake.layout import Bucket
from pipeline.lake.parquet import join_rows
from pipeline.lake.provenance import Origins
from pipeline.lake.rewriting import BucketLog, Claim
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, destroy_keys, publish_files

PURPOSE = "shorten"

Instants = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Goal:
    """When each row of a table goes: its deadline and the start of its bucket (epoch µs)."""

    deadlines_us: Instants
    expires_us: Instants


Aim = Callable[[Bucket, pa.Table], Goal]
"""Says of each row of a bucket when it goes now; a row without a sooner bucket stays."""


class Mover:
    """Moves rows as one rewriter: `claim` is a random id, `now_us` one clock reading (epoch µs);
    `name_of` names the bucket that starts at a time."""

    def __init__(
        self, store: Store, *, claim: str, now_us: int, aim: Aim, name_of: Callable[[int], str]
    ) -> None:
        self._store, self._claim, self._now_us = store, claim, now_us
        self._aim, self._name_of = aim, name_of
        self._reader = BucketReader(store)

    def preview(self, bucket: Bucket, columns: Sequence[str] | None = None) -> int:
        """How many rows `move` would move now, as far as can be told by some columns (None: all);
        changes nothing."""
        files = self._read(BucketLog(self._store, bucket), columns)
        return sum(int((~file.kept).sum()) for file in files)

    def move(self, bucket: Bucket) -> Rewrite:
        """Steps 1 to 5; what was done: nothing, if no row goes sooner.

        Raises `LostPartition` if another rewriter works here, `LakeError` if the store fails or a
        file cannot be read: doing it again is right.
        """
        log = BucketLog(self._store, bucket)
        # 1
        claim = log.claim(PURPOSE, self._claim, self._now_us)
        # 2
        files = [file for file in self._read(log) if not file.kept.all()]
        # 3
        new, origins = self._new_files(bucket, claim, files)
        added = publish_files(self._store, new)
        # 4, 5
        removed = [file.entry for file in files]
        return log.finish(
            claim,
            removed,
            added,
            origins,
            before_delete=lambda: destroy_keys(self._store, bucket, removed),
        )

    def _read(self, log: BucketLog, columns: Sequence[str] | None = None) -> list[LiveFile]:
        def keep(rows: pa.Table) -> Flags:
            stays: Flags = self._aim(log.bucket, rows).expires_us >= log.bucket.starts_us
            return stays

        return self._reader.read(log, keep, columns=columns).files

    def _new_files(
        self, bucket: Bucket, claim: Claim, files: list[LiveFile]
    ) -> tuple[list[NewFile], dict[str, Origins]]:
        """Step 3: the files to be, with their origins."""
        tables: dict[Bucket, list[pa.Table]] = defaultdict(list)
        origins: dict[Bucket, Counter[str]] = defaultdict(Counter)
        for file in files:
            assert file.rows is not None
            goal = self._aim(bucket, file.rows)
            expires_us = np.where(file.kept, -1, goal.expires_us)
            for each in np.unique(expires_us).tolist():
                chosen = expires_us == each
                rows, target = file.rows_where(chosen), bucket
                if each >= 0:
                    rows = _with_deadlines(rows, goal.deadlines_us[chosen])
                    target = replace(bucket, expires=self._name_of(each))
                tables[target].append(rows)
                origins[target].update(file.origins_where(chosen))
        new = {
            target: NewFile.rewritten(claim.intent, join_rows(tables[target]), target)
            for target in sorted(tables)
        }
        return list(new.values()), {file.key: dict(origins[at]) for at, file in new.items()}


def _with_deadlines(rows: pa.Table, deadlines_us: Instants) -> pa.Table:
    at = rows.column_names.index("deadline")
    column = rows.schema.field("deadline")
    return rows.set_column(at, column, pa.array(deadlines_us).cast(column.type))
