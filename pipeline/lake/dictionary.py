"""The data dictionary: every table and view with its columns, written from the schemas."""

from collections.abc import Iterator

import pyarrow as pa

from pipeline.lake.tables import DECLARED, HIVE
from pipeline.lake.views import EVENTS_ONCE, VIEWS

_HEAD = ("| column | type | what it is |", "| --- | --- | --- |")
_HIVE_TEXTS = {
    "retention_class": "The row's retention class, from the folder's name.",
    "expires": "The bucket it goes with, YYYY-MM-DDTHH in UTC, from the folder's name.",
}


def dictionary() -> str:
    """Markdown: a section for each table, a line for each view."""
    lines = [
        "# Tables and views",
        "",
        "Written from the schemas by `redactory query --tables`. Times are UTC. The folder of "
        "`runs` holds every version of a record: in SQL that is `run_versions`, and `runs` shows "
        "the latest ones. The folder of `events` holds an event twice that its producer sent "
        "twice: in SQL that is `stored_events`, and `events` shows it once.",
    ]
    for table, schema in DECLARED.items():
        about = (schema.metadata or {}).get(b"description", b"").decode()
        lines += [
            "",
            f"## {table}",
            about,
            "",
            "| column | type | what it is |",
            "| --- | --- | --- |",
        ]
        lines += [line for field in schema for line in _lines(field, "")]
        lines += [f"| `{name}` | {kind} | {_HIVE_TEXTS[name]} |" for name, kind in HIVE.items()]
    lines += ["", "## Views", "", "| view | what a row is |", "| --- | --- |"]
    lines += [f"| `{view.name}` | {view.description} |" for view in (EVENTS_ONCE, *VIEWS)]
    return "\n".join(lines) + "\n"


def _lines(field: "pa.Field[pa.DataType]", prefix: str) -> Iterator[str]:
    about = (field.metadata or {}).get(b"description", b"").decode()
    yield f"| `{prefix}{field.name}` | {_kind(field.type)} | {about} |"
    inner = field.type.value_type if pa.types.is_list(field.type) else field.type
    if pa.types.is_struct(inner):
        is_list = pa.types.is_list(field.type)
        for child in inner:
            yield from _lines(child, f"{prefix}{field.name}{'[]' if is_list else ''}.")


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return "struct" if pa.types.is_struct(kind) else str(kind)
