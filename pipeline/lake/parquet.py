"""Rows to Parquet bytes and back: pure, and the same rows give the same bytes."""

import io
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

SORT_KEYS = ("run_id", "attempt", "sequence", "kafka_offset")
"""The order of rows in a file; a table without one of the columns sorts by the others."""

ROW_GROUP_BYTES = 8 << 20
"""Uncompressed: whoever looks for one run reads few of its neighbours; sorted rows and statistics
say in which group it is."""

BLOOM_COLUMN = "run_id"
_FALSE_POSITIVES = 0.01

_NO_DICTIONARY = frozenset({"event_id", "body", "kafka_offset", "sequence", "occurred_at"})
"""Columns (nearly) without repeats: a dictionary would only cost."""


def to_parquet(rows: pa.Table) -> bytes:
    """A Parquet file of `rows`, sorted; zstd, statistics, bloom filter on `run_id`."""
    keys = [name for name in SORT_KEYS if name in rows.schema.names]
    rows = rows.sort_by([(name, "ascending") for name in keys]).combine_chunks()
    bloom = BLOOM_COLUMN in rows.schema.names
    sink = io.BytesIO()
    pq.write_table(
        rows,
        sink,
        compression="zstd",
        use_dictionary=_dictionary_columns(rows.schema),  # type: ignore[arg-type]  # stubs lag
        write_statistics=True,
        sorting_columns=pq.SortingColumn.from_ordering(
            rows.schema, [(name, "ascending") for name in keys]
        ),
        bloom_filter_options=(
            {BLOOM_COLUMN: {"ndv": _distinct(rows), "fpp": _FALSE_POSITIVES}} if bloom else None
        ),
        row_group_size=max(1, rows.num_rows * ROW_GROUP_BYTES // max(rows.nbytes, 1)),
    )
    return sink.getvalue()


def from_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file; only those of `columns` that it has, if given."""
    file = pq.ParquetFile(pa.BufferReader(data))
    if columns is None:
        return file.read()
    return file.read(columns=[name for name in columns if name in file.schema_arrow.names])


def count_rows(data: bytes) -> int:
    """The number of rows, by the file's footer."""
    rows: int = pq.read_metadata(pa.BufferReader(data)).num_rows
    return rows


def _distinct(rows: pa.Table) -> int:
    return max(1, len(rows[BLOOM_COLUMN].unique()))


@lru_cache(maxsize=16)
def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """The leaf columns for which a dictionary pays, by their Parquet paths."""
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    paths = (leaves.column(index).path for index in range(len(leaves)))
    return [path for path in paths if path.split(".")[0] not in _NO_DICTIONARY]
