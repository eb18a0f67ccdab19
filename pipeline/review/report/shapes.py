"""What a value looks like, in a word: never what it says."""

import re
from typing import Any, Final

_SHAPES: Final = (
    ("UUID", re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")),
    ("number in text", re.compile(r"[+-]?[0-9][0-9., ]{0,40}")),
    ("time", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{4,20}(?:Z|[+-][0-9:]{2,6})?)?")),
    ("digest", re.compile(r"(?:[a-z0-9]{2,10}[:-])?[0-9a-fA-F]{32,128}")),
    ("URL", re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S+")),
    ("path", re.compile(r"(?:\.{0,2}/|[A-Za-z]:\\)\S*")),
    ("word", re.compile(r"[^\W\d_]{1,40}")),
    ("identifier", re.compile(r"[\w.:@/+=~-]{1,80}")),
    ("long token", re.compile(r"\S{81,}")),
    ("JSON", re.compile(r"\s*[\[{].*", re.DOTALL)),
    ("lines of text", re.compile(r".*\n.*", re.DOTALL)),
    ("text", re.compile(r".*", re.DOTALL)),
)
"""The first that matches the whole value."""

MASKED: Final = "masked, whole or in part"
"""What a value looks like in which a pattern has found something."""

_LOOKED_AT: Final = 400


def shape(value: Any) -> str:
    """One of a few words for a string or a number of JSON."""
    if isinstance(value, bool) or value is None:
        return "true, false or null"
    if isinstance(value, int | float):
        return "number"
    head = str(value)[:_LOOKED_AT]
    return next(name for name, pattern in _SHAPES if pattern.fullmatch(head))
