"""Takes typed, bounded values out of a body of any shape."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

TEXT_MAX: Final = 512
"""Code points of a text that a record embeds."""

JSON_MAX_BYTES: Final = 4096
"""Size of a JSON value that a record embeds; what is larger is referred to."""

LIST_MAX: Final = 64
"""Items of a list within one event that a record embeds."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")

Reference = dict[str, str | None]


class Body:
    """The fields of one body; `is_whole` is False once something was too large to be taken."""

    def __init__(self, text: str | None) -> None:
        self.fields = _parse(text)
        self.is_whole = True

    def has(self, name: str) -> bool:
        """Whether the field is there, null or not."""
        return name in self.fields

    def within(self, name: str) -> Mapping[str, Any]:
        """An object in the body; empty if it is none."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}

    def text(self, name: str) -> str | None:
        """A text; of another value its JSON."""
        return self._text(self.fields.get(name))

    def json(self, name: str) -> str | None:
        """A value as JSON text."""
        value = self.fields.get(name)
        if value is None:
            return None
        text = _dump(value)
        if len(text.encode("utf-8", "surrogatepass")) <= JSON_MAX_BYTES:
            return text
        self.is_whole = False
        return None

    def text_within(self, name: str, inner: str) -> str | None:
        """A text of an object in the body."""
        return self._text(self.within(name).get(inner))

    def count(self, name: str) -> int | None:
        """A whole number of 64 bits."""
        return whole_number(self.fields.get(name))

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        value = self.fields.get(name)
        items = value if isinstance(value, list) else []
        return [text for item in self._bounded(items) if (text := self._text(item)) is not None]

    def reference(self, name: str) -> Reference | None:
        """A reference; a text is the name of one, perhaps with its digest after an `@`."""
        return self._reference(self.fields.get(name))

    def references(self, name: str) -> list[Reference] | None:
        """A list of references; None if the field is not there."""
        value = self.fields.get(name)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        found = (self._reference(item) for item in self._bounded(items))
        return [reference for reference in found if reference is not None]

    def _reference(self, value: Any) -> Reference | None:
        if isinstance(value, str):
            name, _, digest = value.partition("@sha256:")
            known = f"sha256:{digest}" if digest else None
            return {"name": self._text(name), "version": None, "digest": known, "uri": None}
        if not isinstance(value, dict):
            return None
        return {key: self._text(value.get(key)) for key in ("name", "version", "digest", "uri")}

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        text = value if isinstance(value, str) else _dump(value)
        if len(text) <= TEXT_MAX and not _SURROGATES.search(text):
            return text
        self.is_whole = False
        return None

    def _bounded(self, items: list[Any]) -> list[Any]:
        if len(items) > LIST_MAX:
            self.is_whole = False
        return items[:LIST_MAX]


def whole_number(value: Any) -> int | None:
    """The value, if it is an integer of 64 bits."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) < 2**63 else None


def _parse(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text)  # half surrogate pairs, which orjson does not take
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _dump(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value, separators=(",", ":"))
