"""The live files of a table as an Arrow dataset, hive columns included.

Apart from `tables.py`, because importing Arrow's datasets takes longer than a small query.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry
from pipeline.lake.live import Lake
from pipeline.lake.local import LocalStore
from pipeline.lake.parquet import from_parquet
from pipeline.lake.sealing import CONTENT, has_keys
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.lake.tables import full_schema
from pipeline.slices import Table


def dataset(lake: Lake, table: Table) -> pads.Dataset:
    """The live rows of `table`; reads nothing until it is scanned.

    The content columns of sealed files whose keys are not here are null.
    """
    parts = list(datasets(lake.store, table, lake.files[table]))
    schema = full_schema(table)
    if len(parts) == 1 and parts[0].schema.equals(schema):
        return parts[0]
    children: Any = parts
    union: pads.Dataset = pads.dataset(children, schema=schema)
    return union


def datasets(store: Store, table: Table, files: Sequence[FileEntry]) -> Iterator[pads.Dataset]:
    """Files as they can be read: open ones, sealed ones whose keys are here, and the rest.

    Of the rest the content columns are left out.
    """
    schema = full_schema(table)
    shut = [f for f in files if f.sealed and not has_keys(store.bucket_keys, f.sealed)]
    unsealed = [file for file in files if file.sealed and file not in shut]
    if unsealed:
        yield pads.dataset(_unsealed(store, unsealed, schema))
    if shut:
        names = [name for name in schema.names if name not in CONTENT]
        yield _dataset(store, shut, pa.schema([schema.field(name) for name in names]))
    if plain := [file for file in files if not file.sealed]:
        yield _dataset(store, plain, schema)


def _unsealed(store: Store, files: Sequence[FileEntry], schema: pa.Schema) -> pa.Table:
    """The rows of sealed files, read at once.

    Arrow would ask for the keys from threads of its own, where a scan that holds Python's lock
    waits for them for ever.
    """
    tables = []
    for file in files:
        rows = from_parquet(store.get(file.path), keys=store.bucket_keys)
        bucket = _bucket(file.path)
        for name, value in (
            ("retention_class", bucket.retention_class),
            ("expires", bucket.expires),
        ):
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        tables.append(rows)
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default")


def _dataset(store: Store, files: Sequence[FileEntry], schema: pa.Schema) -> pads.Dataset:
    file_format = pads.ParquetFileFormat()
    fragments = [_fragment(store, file, file_format) for file in files]
    return pads.FileSystemDataset(fragments, schema, file_format)


def _fragment(store: Store, file: FileEntry, file_format: pads.ParquetFileFormat) -> pads.Fragment:
    values = _hive_values(file.path)
    if isinstance(store, LocalStore):
        path = str(store.root / file.path)
        return file_format.make_fragment(path, LocalFileSystem(), partition_expression=values)
    source: Any = pa.PythonFile(_RemoteFile(store, file), mode="r")
    return file_format.make_fragment(source, partition_expression=values)


class _RemoteFile(io.RawIOBase):
    """A committed file of an object store, read in ranges as they are asked for."""

    def __init__(self, store: Store, file: FileEntry) -> None:
        self._store, self._file, self._position = store, file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}
        self._position = start[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(self._file.size_bytes - self._position, 0)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._store.get_range(self._file.path, self._position, length)
        self._position += len(data)
        return data


def _hive_values(path: str) -> pads.Expression:
    bucket = _bucket(path)
    return (pads.field("retention_class") == bucket.retention_class) & (
        pads.field("expires") == bucket.expires
    )


def _bucket(path: str) -> layout.Bucket:
    bucket = layout.parse_bucket(path)
    if bucket is None:
        raise LogError(f"{path} is no path of a table", code="bad-path", hint=VERIFY_HINT)
    return bucket
