"""Server-sent events, as records keep them: whole, so that rules see whole values.

A stream brings a text in pieces, and a secret cut in two is found in neither.  The pieces of one
text are joined in the place of the first: what a client puts together from the record is the same,
though it comes at once.  Source: HTML Living Standard, 9.2 (event streams).
"""

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

Event = dict[str, Any]
"""`event` is its name (None: unnamed), `data` its JSON value or text."""

_PIECES: Final = "delta"
_NO_TEXT: Final = frozenset({"type", "role", "id", "name", "object", "call_id"})
_COUNTED: Final = frozenset({"sequence_number", "obfuscation", "logprobs"})


def parse_stream(text: str) -> list[Event]:
    """The events of a stream, its pieces joined."""
    return joined(_events(text))


def render_stream(events: Iterable[Event]) -> Iterator[bytes]:
    """The stream again, one piece of bytes for each event."""
    for event in events:
        name, data = event["event"], event["data"]
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        lines = [f"event: {name}"] if name else []
        lines += [f"data: {line}" for line in text.split("\n")]
        yield ("\n".join(lines) + "\n\n").encode()


def joined(events: Iterable[Event]) -> list[Event]:
    """Events that differ in nothing but pieces of text, as one."""
    kept: list[Event] = []
    first_of: dict[str, Event] = {}
    for event in events:
        pieces = list(_pieces(event["data"]))
        key = json.dumps([event["event"], _skeleton(event["data"])], sort_keys=True)
        known = first_of.get(key) if pieces else None
        if known is None:
            event = copy.deepcopy(event)
            kept.append(event)
            if pieces:
                first_of[key] = event
            continue
        for path, text in pieces:
            _append(known["data"], path, text)
    return kept


def _events(text: str) -> Iterator[Event]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        name, lines = None, []
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                lines.append(value)
        if name or lines:
            yield {"event": name, "data": _value("\n".join(lines))}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pieces(
    value: Any, path: tuple[Any, ...] = (), is_within: bool = False
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The texts under `delta`, but for names and kinds."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in _NO_TEXT:
                yield from _pieces(inner, (*path, name), is_within or name == _PIECES)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _pieces(inner, (*path, index), is_within)
    elif isinstance(value, str) and is_within:
        yield path, value


def _skeleton(value: Any, is_within: bool = False) -> Any:
    """What is left of an event without its pieces and its counters."""
    if isinstance(value, dict):
        return {
            name: inner if name in _NO_TEXT else _skeleton(inner, is_within or name == _PIECES)
            for name, inner in value.items()
            if name not in _COUNTED
        }
    if isinstance(value, list):
        return [_skeleton(inner, is_within) for inner in value]
    return "" if isinstance(value, str) and is_within else value


def _append(value: Any, path: tuple[Any, ...], text: str) -> None:
    *above, last = path
    for step in above:
        value = value[step]
    value[last] += text
