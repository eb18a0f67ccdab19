"""Rows to Parquet bytes and back: pure, and the same rows give the same bytes."""

import io
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import LakeError
from pipeline.lake.keystore import KeyStore
from pipeline.lake.sealing import CONTENT, SEALED, Seal, unsealing

SORT_KEYS = ("run_id", "attempt", "sequence", "kafka_offset")
"""The order of rows in a file; a table without one of the columns sorts by the others."""

ROW_GROUP_BYTES = 8 << 20
"""Uncompressed: whoever looks for one run reads few of its neighbours; sorted rows and statistics
say in which group it is."""

BLOOM_COLUMN = "run_id"
_FALSE_POSITIVES = 0.01

_STATISTICS = frozenset(
    {*SORT_KEYS, "first_offset", "last_offset", "occurred_at", "ingested_at", "deadline"}
)
"""Columns by which row groups are told apart.  Of others a footer, which every reader of a file
reads whole, would only grow."""

_NO_DICTIONARY = frozenset({"event_id", "body", "kafka_offset", "sequence", "occurred_at"})
"""Columns (nearly) without repeats: a dictionary would only cost."""


def to_parquet(rows: pa.Table, seal: Seal | None = None) -> bytes:
    """A Parquet file of `rows`, sorted; zstd, statistics, bloom filter on `run_id`.

    The footer leaves Arrow's own schema out: the types follow from those of Parquet.  With `seal`,
    for rows that are to be sealed, the content columns are encrypted and the file says where its
    keys are.
    """
    keys = [name for name in SORT_KEYS if name in rows.schema.names]
    rows = rows.sort_by([(name, "ascending") for name in keys]).combine_chunks()
    # Arrow writes no bloom filter into a file that it encrypts.
    bloom = BLOOM_COLUMN in rows.schema.names and seal is None
    if is_to_be_sealed(rows):
        reference = seal.reference.encode() if seal else b""
        rows = rows.replace_schema_metadata({**(rows.schema.metadata or {}), SEALED: reference})
    plain = rows.schema.remove_metadata()  # where a file's keys are makes no other columns
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        rows.schema,
        store_schema=False,
        encryption_properties=seal.properties(_leaves(plain)) if seal else None,
        compression="zstd",
        use_dictionary=_dictionary_columns(plain),  # type: ignore[arg-type]  # stubs lag
        write_statistics=[name for name in rows.schema.names if name in _STATISTICS],
        sorting_columns=pq.SortingColumn.from_ordering(
            rows.schema, [(name, "ascending") for name in keys]
        ),
        bloom_filter_options=(
            {BLOOM_COLUMN: {"ndv": _distinct(rows), "fpp": _FALSE_POSITIVES}} if bloom else None
        ),
    ) as writer:
        size = max(1, rows.num_rows * ROW_GROUP_BYTES // max(rows.nbytes, 1))
        writer.write_table(rows, row_group_size=size)
        metadata = rows.schema.metadata or {}
        writer.add_key_value_metadata(
            {name.decode(): text.decode() for name, text in metadata.items()}
        )
    return sink.getvalue()


def from_parquet(
    data: bytes, columns: Sequence[str] | None = None, keys: KeyStore | None = None
) -> pa.Table:
    """The rows of a Parquet file; only those of `columns` that it has, if given.

    Sealed content needs `keys`: `LakeError` ("key-gone") if those of the file are not there.
    """
    file = pq.ParquetFile(pa.BufferReader(data))
    names = file.schema_arrow.names if columns is None else columns
    names = [name for name in names if name in file.schema_arrow.names]
    reference = sealed_under(data)
    if reference and CONTENT & set(names):
        if keys is None:
            raise LakeError("a sealed file was read without keys", code="key-gone")
        unsealed = unsealing(keys, reference)
        file = pq.ParquetFile(pa.BufferReader(data), decryption_properties=unsealed)
    elif reference:
        # `read` asks for the keys of columns that it was not asked for (seen with 14 and more).
        batches = file.iter_batches(columns=names, batch_size=max(1, file.metadata.num_rows))
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        return pa.Table.from_batches(batches, schema.with_metadata(file.schema_arrow.metadata))
    return file.read(columns=names)


def sealed_under(data: bytes) -> str:
    """What a file says about where its keys are; empty if it is not sealed."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except (pa.ArrowException, OSError):
        return ""  # it is no Parquet file at all
    return metadata.get(SEALED, b"").decode()


def is_to_be_sealed(rows: pa.Table) -> bool:
    """Whether rows must only be stored sealed, as those are that were read from a sealed file."""
    return SEALED in (rows.schema.metadata or {})


def join_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows in one table, to be sealed if any of them is; missing columns become null."""
    joined = pa.concat_tables(tables, promote_options="default")
    if any(map(is_to_be_sealed, tables)):
        joined = joined.replace_schema_metadata({**(joined.schema.metadata or {}), SEALED: b""})
    return joined


def with_record_index(rows: pa.Table) -> pa.Table:
    """The rows with the column `record_index`, which older files lack: there each record is one."""
    if "record_index" in rows.column_names:
        return rows
    return rows.append_column("record_index", pa.nulls(rows.num_rows, pa.int32()))


def count_rows(data: bytes) -> int:
    """The number of rows, by the file's footer."""
    rows: int = pq.read_metadata(pa.BufferReader(data)).num_rows
    return rows


def _distinct(rows: pa.Table) -> int:
    return max(1, len(rows[BLOOM_COLUMN].unique()))


@lru_cache(maxsize=16)
def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """The leaf columns for which a dictionary pays, by their Parquet paths."""
    return [path for path in _leaves(schema) if path.split(".")[0] not in _NO_DICTIONARY]


@lru_cache(maxsize=16)
def _leaves(schema: pa.Schema) -> tuple[str, ...]:
    """The leaf columns, by their Parquet paths."""
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return tuple(leaves.column(index).path for index in range(len(leaves)))
