"""Tables for a terminal."""

from collections.abc import Iterable, Mapping
from typing import Any


def print_table(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints the named columns of rows to stdout."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE)
    for row in rows:
        table.add_row(*(Text(str(row[column])) for column in columns))
    Console().print(table)
