"""A stored body as text in pieces, so that what was masked in it can be marked in place."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.records.reading import Row


class Piece(NamedTuple):
    """A piece of text; `rule` is what masked it, if anything did."""

    text: str
    rule: str = ""


_Marks = Mapping[str, list[tuple[int, int, str]]]
"""(start, end, rule) in the texts of a body, by JSON pointer; below 0 is the end of the text."""


def body_pieces(event: Row) -> Iterator[Piece]:
    """The body, indented, piece by piece; as it is stored if it is nested too deeply."""
    if event["body"] is None:
        yield Piece("sealed: its keys are not here")
        return
    try:
        yield from list(_value(json.loads(event["body"]), "", _marks(event), "\n"))
    except (RecursionError, ValueError):
        yield Piece(event["body"])


def rules_outside(event: Row) -> list[str]:
    """Columns that were masked, with the rule: `name (email)`."""
    outside = (each for each in event["redactions"] if not _is_inside(each))
    return list(dict.fromkeys(f"{each['path']} ({each['rule']})" for each in outside))


def _is_inside(redaction: Row) -> bool:
    return redaction["path"][:1] in ("", "/")


def _marks(event: Row) -> _Marks:
    marks: dict[str, list[tuple[int, int, str]]] = {}
    for each in filter(_is_inside, event["redactions"]):
        start, end = each["span_start"], each["span_end"]
        is_here = not each["layers"] and start is not None and end is not None
        place = (start, end) if is_here else (0, -1)
        marks.setdefault(each["path"], []).append((*place, each["rule"]))
    return marks


def _value(value: Any, path: str, marks: _Marks, line: str) -> Iterator[Piece]:
    """`line` is a line break and the indentation of where the value stands."""
    if isinstance(value, dict) and value:
        yield Piece("{")
        for index, (key, item) in enumerate(value.items()):
            name = json.dumps(key, ensure_ascii=False)
            yield Piece(f"{',' if index else ''}{line}  {name}: ")
            step = key.replace("~", "~0").replace("/", "~1")
            yield from _value(item, f"{path}/{step}", marks, f"{line}  ")
        yield Piece(f"{line}}}")
    elif isinstance(value, list) and value:
        yield Piece("[")
        for index, item in enumerate(value):
            yield Piece(f"{',' if index else ''}{line}  ")
            yield from _value(item, f"{path}/{index}", marks, f"{line}  ")
        yield Piece(f"{line}]")
    elif isinstance(value, str):
        yield Piece('"')
        yield from _text(value, marks.get(path, []))
        yield Piece('"')
    else:
        rule = marks[path][0][2] if path in marks else ""
        yield Piece(json.dumps(value, ensure_ascii=False), rule)


def _text(text: str, places: list[tuple[int, int, str]]) -> Iterator[Piece]:
    at = 0
    for start, end, rule in sorted(places):
        end = len(text) if end < 0 else end
        if start >= at:
            yield Piece(text[at:start])
            yield Piece(text[start:end], rule)
            at = end
    yield Piece(text[at:])
