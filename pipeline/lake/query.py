"""SQL over the live set: DuckDB in memory, one view per table, nothing but reading.

The session can read the live files and nothing else on the machine, and write nothing at all; a
query that needs more memory than there is fails rather than spill rows to a temporary file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from pipeline.errors import LakeError, PipelineError, UsageError
from pipeline.lake.doubles import doubled_ranges
from pipeline.lake.live import Lake
from pipeline.lake.local import LocalStore
from pipeline.lake.tables import DECLARED, HIVE, full_schema
from pipeline.lake.views import EVENTS_ONCE, VIEWS
from pipeline.slices import Table

BATCH_ROWS = 10_000

_STORED_AS: Final[dict[Table, str]] = {"events": "stored_events", "runs": "run_versions"}
"""Tables of which another view shows what is asked for most often."""

VIEW_NAMES: Final = (
    *(_STORED_AS.get(table, table) for table in DECLARED),
    EVENTS_ONCE.name,
    *(view.name for view in VIEWS),
)  # fmt: skip

_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.MULTI}  # MULTI: PIVOT
_ABOUT_THE_SQL = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.PermissionException,
)
"""Errors whose text speaks of the query only; others may quote a stored value."""


@dataclass(frozen=True, slots=True)
class Result:
    """Column names and an iterator over the rows, read as it is consumed."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def connect(lake: Lake, sql: str = "") -> duckdb.DuckDBPyConnection:
    """A locked in-memory session with a view for each table, and those of `VIEWS`.

    Of tables that `sql` does not need the files are not looked at: their views are empty.
    """
    session = duckdb.connect(":memory:")
    # The footers of the files are asked for by each view that stands on them.
    session.execute("SET parquet_metadata_cache = true")
    wanted, allowed = _wanted(session, sql), set[str]()
    for table in DECLARED:
        name = _STORED_AS.get(table, table)
        allowed |= _create_view(session, lake if name in wanted else None, table, name)
    ranges = doubled_ranges(lake)
    session.execute(
        'CREATE TABLE doubled (topic TEXT, "partition" INT, start BIGINT, "end" BIGINT)'
    )
    if ranges:
        session.executemany("INSERT INTO doubled VALUES (?, ?, ?, ?)", ranges)
    once = EVENTS_ONCE if ranges else EVENTS_ONCE._replace(sql="FROM stored_events")
    for view in (once, *VIEWS):
        if view.name in wanted:
            session.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    session.execute(f"SET allowed_paths = [{', '.join(map(_quote, sorted(allowed)))}]")
    for setting in (
        "TimeZone = 'UTC'",
        "temp_directory = ''",
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        session.execute(f"SET {setting}")
    return session


def _wanted(session: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """The views that a query needs: those it reads, and what they are made from.

    All of them where it does not say which: SQL that makes SQL, the catalogue, what is no SELECT.
    """
    if not sql or _INDIRECT.search(sql):
        return set(VIEW_NAMES)
    try:
        wanted = {name.lower() for name in session.get_table_names(sql)} & set(VIEW_NAMES)
    except duckdb.Error:
        return set(VIEW_NAMES)
    for view in reversed((EVENTS_ONCE, *VIEWS)):  # each stands on those before it
        if view.name in wanted:
            wanted |= set(_SOURCES.findall(view.sql))
    return wanted


_SOURCES: Final = re.compile(r"(?:FROM|JOIN) (\w+)")
_INDIRECT: Final = re.compile(r"(?i)query|show|describe|summarize|pragma|schema|duckdb_|pg_")


def query(lake: Lake, sql: str) -> Result:
    """Runs one SELECT.

    Raises `UsageError` if it is none, does not compile or fails on a value, else `LakeError`.
    """
    schema, batches = query_batches(lake, sql)
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return Result(_distinct(schema.names), rows)


def query_batches(lake: Lake, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The same as Arrow record batches, read as they are consumed."""
    try:
        session = connect(lake, sql)
        statements = session.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in _READING:
            raise UsageError(
                "a query is one SELECT statement",
                code="not-a-select",
                hint=f"the views are {', '.join(VIEW_NAMES)}",
            )
        reader = session.sql(sql).to_arrow_reader(BATCH_ROWS)
    except duckdb.Error as error:
        raise _explain(error) from None
    return reader.schema, _batches(session, reader)


def _batches(
    session: duckdb.DuckDBPyConnection, reader: pa.RecordBatchReader
) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _explain(error) from None
    finally:
        session.close()


def _create_view(
    session: duckdb.DuckDBPyConnection, lake: Lake | None, table: Table, name: str
) -> set[str]:
    """Creates the view; the paths it reads.  The empty table gives it its types in any case."""
    session.register(f"{table}_declared", full_schema(table).empty_table())
    sources, paths = [f"{table}_declared"], set[str]()
    if lake is not None:
        more, paths = _sources(session, lake, table)
        sources += more
    union = " UNION ALL BY NAME ".join(f"SELECT * FROM {source}" for source in sources)
    session.execute(f"CREATE VIEW {name} AS {union}")
    return paths


def _sources(
    session: duckdb.DuckDBPyConnection, lake: Lake, table: Table
) -> tuple[list[str], set[str]]:
    """Where the rows of a table come from, and the paths that may be read for them."""
    files = [file for file in lake.files[table] if not file.sealed]
    sources, paths = list[str](), set[str]()
    if files and isinstance(lake.store, LocalStore):
        paths = {str(lake.store.root / file.path) for file in files}
        patterns = {_as_pattern(path) for path in paths}
        types = ", ".join(f"{name}: VARCHAR" for name in HIVE)
        sources.append(
            f"read_parquet([{', '.join(map(_quote, sorted(patterns)))}], union_by_name = true, "
            f"hive_partitioning = true, hive_types = {{{types}}})"
        )
        paths |= patterns
        files = []
    if files or any(file.sealed for file in lake.files[table]):
        from pipeline.lake.datasets import datasets  # slow to import, and seldom needed

        sealed = [file for file in lake.files[table] if file.sealed]
        for index, source in enumerate(datasets(lake.store, table, [*files, *sealed])):
            session.register(f"{table}_files_{index}", source)
            sources.append(f"{table}_files_{index}")
    return sources, paths


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as_pattern(path: str) -> str:
    """DuckDB takes paths as patterns: this one matches just `path`."""
    return re.sub(r"[\[*?]", r"[\g<0>]", path)


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Column names, repeated ones numbered, so that a row can be an object."""
    seen: dict[str, int] = {}
    columns = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        columns.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(columns)


def _explain(error: Exception) -> PipelineError:
    text = str(error)
    if "No such file" in text or "No files found" in text:
        return LakeError(
            "a file was removed while the query ran",
            code="changed-meanwhile",
            hint="run it again; if it stays so, run `redactory verify`",
        )
    if isinstance(error, _ABOUT_THE_SQL):
        return UsageError(_first_sentence(text), code="bad-sql", hint="see `DESCRIBE events`")
    if isinstance(error, duckdb.OutOfMemoryException):
        return LakeError(
            "the query needs more memory than there is",
            code="no-memory",
            hint="select fewer columns, or aggregate",
        )
    return UsageError(
        f"the query failed on a stored value ({type(error).__name__})",
        code="query-failed",
        hint="TRY_CAST gives NULL where a value cannot be converted",
    )


def _first_sentence(text: str) -> str:
    """The part of DuckDB's message before it quotes the query, on one line."""
    return " ".join(text.split("\n\nLINE ")[0].split())
