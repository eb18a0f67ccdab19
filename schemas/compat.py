"""May a schema change?  Only so that old data and old readers both survive it.

Agents and pipelines are upgraded in either order, so a change must hold both ways.
Source: Avro specification, "Schema Resolution".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemas.errors import IncompatibleSchema

_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def require_compatible(new: Any, published: Sequence[Any]) -> None:
    """Raise `IncompatibleSchema` if `new` breaks with any of the `published` schemas."""
    changes = [
        change
        for old in published
        for change in (
            *(f"old data, new reader: {problem}" for problem in unreadable(old, new)),
            *(f"new data, old reader: {problem}" for problem in unreadable(new, old)),
        )
    ]
    if changes:
        raise IncompatibleSchema(list(dict.fromkeys(changes)))


def unreadable(writer: Any, reader: Any) -> list[str]:
    """What a reader of schema `reader` cannot read in data of schema `writer`; empty: all is well.

    Each problem names its place with dots, as in "RunEvent.producer.name: ...".
    """
    return list(_Resolution(writer, reader).problems(writer, reader, ""))


class _Resolution:
    def __init__(self, writer: Any, reader: Any) -> None:
        self._writers, self._readers = dict(_named(writer)), dict(_named(reader))
        self._entered: set[tuple[str, str]] = set()

    def problems(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        writer, reader = _follow(writer, self._writers), _follow(reader, self._readers)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.problems(branch, reader, path)
        elif isinstance(reader, list):
            if not any(self._fits(writer, branch) for branch in reader):
                yield f"{path or '.'}: the union no longer takes {_type(writer)}"
        elif _type(writer) != _type(reader):
            if (_type(writer), _type(reader)) not in _PROMOTIONS:
                yield f"{path or '.'}: {_type(writer)} became {_type(reader)}"
        elif _logical(writer) != _logical(reader):
            yield f"{path or '.'}: the unit {_logical(writer)} became {_logical(reader)}"
        else:
            yield from self._same_type(writer, reader, path)

    def _fits(self, writer: Any, reader: Any) -> bool:
        # A trial must not leave records marked as entered: another branch may need them checked.
        entered = set(self._entered)
        fits = not any(self.problems(writer, reader, ""))
        self._entered = entered
        return fits

    def _same_type(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        match _type(writer):
            case "record" | "enum" | "fixed" as kind:
                place = f"{path}.{_short(reader)}" if path else _short(reader)
                if _short(writer) != _short(reader):
                    yield f"{place}: was named {_short(writer)}"
                elif kind == "record":
                    yield from self._record(writer, reader, path or _short(reader))
                elif kind == "enum" and "default" not in reader:
                    for symbol in writer["symbols"]:
                        if symbol not in reader["symbols"]:
                            yield f"{path}: the symbol {symbol} is unknown and there is no default"
                elif kind == "fixed" and writer["size"] != reader["size"]:
                    yield f"{path}: the size changed"
            case "array":
                yield from self.problems(writer["items"], reader["items"], f"{path}[]")
            case "map":
                yield from self.problems(writer["values"], reader["values"], f"{path}{{}}")

    def _record(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        pair = (_short(writer), _short(reader))
        if pair in self._entered:
            return
        self._entered.add(pair)
        written = {field["name"]: field["type"] for field in writer["fields"]}
        for field in reader["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            source = next((name for name in names if name in written), None)
            if source is not None:
                yield from self.problems(written[source], field["type"], f"{path}.{field['name']}")
            elif "default" not in field:
                yield f"{path}.{field['name']}: is missing and has no default"


def _follow(schema: Any, named: Mapping[str, Any]) -> Any:
    return named.get(schema.rpartition(".")[2], schema) if isinstance(schema, str) else schema


def _type(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, Mapping) else str(schema)


def _logical(schema: Any) -> str | None:
    return schema.get("logicalType") if isinstance(schema, Mapping) else None


def _short(schema: Any) -> str:
    return str(schema["name"]).rpartition(".")[2]


def _named(schema: Any) -> Iterator[tuple[str, Any]]:
    """Named types by short name: resolution compares names without their namespace."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _named(branch)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            yield _short(schema), schema
        for field in schema.get("fields", ()):
            yield from _named(field["type"])
        yield from _named(schema.get("items"))
        yield from _named(schema.get("values"))
