"""The live files of a table as an Arrow dataset, hive columns included.

Apart from `tables.py`, because importing Arrow's datasets takes longer than a small query.
"""

from typing import Any

import obstore
import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry
from pipeline.lake.live import Lake
from pipeline.lake.local import LocalStore
from pipeline.lake.store import VERIFY_HINT, Store, lake_errors
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
    with lake_errors():
        reader: Any = obstore.open_reader(store.objects, file.path)
        source: Any = pa.PythonFile(reader, mode="r")
    return file_format.make_fragment(source, partition_expression=values)


def _hive_values(path: str) -> pads.Expression:
    bucket = layout.parse_bucket(path)
    if bucket is None:
        raise LogError(f"{path} is no path of a table", code="bad-path", hint=VERIFY_HINT)
    return (pads.field("retention_class") == bucket.retention_class) & (
        pads.field("expires") == bucket.expires
    )
