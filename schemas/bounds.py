"""May data of a schema be read at all?  Its bytes must bound the work, its types the depth.

A registry holds schemas of anybody.  A type within itself lets four megabytes nest a million times,
which fastavro follows on the stack until the process dies; an array of what takes no byte has any
number of items in ten.
"""

from collections.abc import Mapping
from typing import Any, Final

MAX_DEPTH: Final = 64

_PRIMITIVE: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)


class _Unbounded(Exception):
    pass


def is_bounded(schema: Any) -> bool:
    """Whether a parsed schema (names in full) has no type within itself and repeats nothing that
    takes no byte."""
    try:
        _holds_empty(schema, {}, MAX_DEPTH)
    except _Unbounded:
        return False
    return True


def _holds_empty(schema: Any, named: dict[str, bool], depth: int) -> bool:
    """Whether some value in a value of `schema` takes no byte; what a union chooses takes one."""
    if depth == 0:
        raise _Unbounded
    if isinstance(schema, list):
        found = [_holds_empty(each, named, depth - 1) for each in schema if each != "null"]
        return any(found)
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return schema == "null"
        if schema not in named:
            raise _Unbounded  # it is still being defined
        return named[schema]
    return _of_complex(schema, named, depth - 1)


def _of_complex(schema: Mapping[str, Any], named: dict[str, bool], depth: int) -> bool:
    match schema["type"]:
        case "record" | "error":
            found = [_holds_empty(each["type"], named, depth) for each in schema["fields"]]
            named[schema["name"]] = not found or any(found)
        case "enum":
            named[schema["name"]] = False
        case "fixed":
            named[schema["name"]] = schema["size"] == 0
        case "array" | "map" as kind:
            if _holds_empty(schema["items" if kind == "array" else "values"], named, depth):
                raise _Unbounded
            return False
        case other:
            return _holds_empty(other, named, depth)
    return named[schema["name"]]
