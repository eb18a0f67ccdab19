"""The tables of a lake and their columns, as a reader sees them."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pipeline.slices import Table
from schemas.parquet import DEAD_LETTERS, EVENTS, RUNS

DECLARED: Final[Mapping[Table, pa.Schema]] = {
    "events": EVENTS,
    "runs": RUNS,
    "dead_letters": DEAD_LETTERS,
}
"""The schema of every file of a table."""

HIVE: Final[Mapping[str, pa.DataType]] = {"retention_class": pa.string(), "expires": pa.string()}
"""The columns that stand in the folder names; `expires` is "YYYY-MM-DDTHH", UTC."""


def full_schema(table: Table) -> pa.Schema:
    """What a reader sees: the declared columns and the hive columns."""
    schema = DECLARED[table]
    for name, kind in HIVE.items():
        schema = schema.append(pa.field(name, kind))
    return schema
