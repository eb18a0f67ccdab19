"""The live files of a table as an Arrow dataset, hive columns included."""

from collections.abc import Mapping
from typing import Any, Final

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
from pipeline.slices import Table
from schemas.parquet import DEAD_LETTERS, EVENTS

DECLARED: Final[Mapping[Table, pa.Schema]] = {"events": EVENTS, "dead_letters": DEAD_LETTERS}
"""The schema of every file of a table."""

HIVE: Final[Mapping[str, pa.DataType]] = {"retention_class": pa.string(), "expires": pa.string()}
"""The columns that stand in the folder names; `expires` is "YYYY-MM-DDTHH", UTC."""


def full_schema(table: Table) -> pa.Schema:
    """What a reader sees: the declared columns and the hive columns."""
    schema = DECLARED[table]
    for name, kind in HIVE.items():
        schema = schema.append(pa.field(name, kind))
    return schema


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
