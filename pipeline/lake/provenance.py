"""What became of the slices' files: which rows were removed for good, through every rewrite."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import LogError
from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.layout import parse_data_file
from pipeline.lake.store import VERIFY_HINT

Origins = Mapping[str, int]
"""Rows by the path of the slice's own file that they were first written to."""

_ROW_ORDER = ("kafka_topic", "kafka_partition", "kafka_offset")


def trace_origins(
    rewrites: Iterable[Rewrite], known: Mapping[str, Origins] | None = None
) -> dict[str, Origins]:
    """The origins of every file that a rewrite added; those of one bucket come in order.

    `known` are those of files that other buckets' rewrites added.
    """
    rewrites = list(rewrites)
    made = dict(known or {})
    made |= {path: origins for rewrite in rewrites for path, origins in rewrite.origins.items()}
    for rewrite in rewrites:
        for file in rewrite.added:
            if file.path not in made:
                made[file.path] = _sum_origins(rewrite.removed, made)
    return made


def origins_of(file: FileEntry, made: Mapping[str, Origins]) -> Origins:
    """The origins of one file: a slice's own has itself."""
    return made.get(file.path, {file.path: file.rows})


def kept_origins(rows: pa.Table, kept: NDArray[np.bool_], origins: Origins) -> Origins:
    """The origins of those rows of a file that are `kept`."""
    return Counter(
        path for path, stays in zip(row_origins(rows, origins), kept, strict=True) if stays
    )


def row_origins(rows: pa.Table, origins: Origins) -> list[str]:
    """Where each row of a file was first written to.

    Slices follow one another in offset order, so sorted rows fall to sorted origins one by one.
    """
    if sum(origins.values()) != rows.num_rows:
        raise LogError(
            "a file has another number of rows than the files it was made from",
            code="origins-differ",
            hint=VERIFY_HINT,
        )
    order = np.arange(rows.num_rows)
    if set(_ROW_ORDER) <= set(rows.column_names):
        # The last key is the first to sort by.
        order = np.lexsort([rows[name].to_numpy() for name in reversed(_ROW_ORDER)])
    paths = sorted(origins, key=_slice_order)
    labels = np.empty(rows.num_rows, np.int64)
    labels[order] = np.repeat(np.arange(len(paths)), [origins[path] for path in paths])
    return [paths[label] for label in labels.tolist()]


def swept_rows(rewrites: Iterable[Rewrite]) -> dict[str, int]:
    """Rows that rewrites removed for good, by the file that a slice had written them to; less those
    that a retry found in a record beyond its first, so that it may be negative."""
    rewrites = list(rewrites)
    made = trace_origins(rewrites)
    swept: Counter[str] = Counter()
    for rewrite in rewrites:
        swept.update(_sum_origins(rewrite.removed, made))
        swept.subtract(_sum_origins(rewrite.added, made))
    return {path: count for path, count in swept.items() if count}


def unequal_rewrites(rewrites: Iterable[Rewrite]) -> list[Rewrite]:
    """Rewrites whose added files hold other rows than they say, or more than were removed and what
    they found in records beyond the first."""
    rewrites = list(rewrites)
    made = trace_origins(rewrites)
    return [
        rewrite
        for rewrite in rewrites
        if any(file.rows != sum(made[file.path].values()) for file in rewrite.added)
        or _sum_origins(rewrite.added, made) - _sum_origins(rewrite.removed, made)
        != Counter(rewrite.further)
    ]


def _sum_origins(files: Iterable[FileEntry], made: Mapping[str, Origins]) -> Counter[str]:
    total: Counter[str] = Counter()
    for file in files:
        total.update(origins_of(file, made))
    return total


def _slice_order(path: str) -> tuple[str, int, int]:
    file = parse_data_file(path)
    if file is None:
        raise LogError(f"{path} is no file of a slice", code="bad-path", hint=VERIFY_HINT)
    return file.topic, file.partition, file.number
