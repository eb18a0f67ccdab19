"""The live files of a table as an Arrow dataset, hive columns included.

Apart from `tables.py`, because importing Arrow's datasets takes longer than a small query.
"""

import io
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry
from pipeline.lake.live import Lake
from pipeline.lake.local import LocalStore
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.lake.tables import full_schema
from pipeline.slices import Table


def dataset(lake: Lake, table: Table) -> pads.Dataset:
    """The live rows of `table`; reads nothing until it is scanned."""
    file_format = pads.ParquetFileFormat()
    fragments = [_fragment(lake.store, file, file_format) for file in lake.files[table]]
    return pads.FileSystemDataset(fragments, full_schema(table), file_format)


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
    bucket = layout.parse_bucket(path)
    if bucket is None:
        raise LogError(f"{path} is no path of a table", code="bad-path", hint=VERIFY_HINT)
    return (pads.field("retention_class") == bucket.retention_class) & (
        pads.field("expires") == bucket.expires
    )
