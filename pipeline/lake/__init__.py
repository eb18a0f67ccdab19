"""The lake: committed Parquet files and the log that says which they are."""

from pipeline.lake.live import Lake, open_lake
from pipeline.lake.store import Store

__all__ = ["Lake", "Store", "open_lake"]
