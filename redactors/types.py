"""What redaction hands back: masked text and the declarations of what was done to it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Redaction:
    """One declared change; never holds the original or an unkeyed hash of it.

    `path` is a JSON pointer into the stored body ("/messages/0/content"; "" is the whole body) or
    a column name.  `span_start`/`span_end` are code points in the stored text of the innermost
    layer; None means the whole value.  `length` is the original's length in code points, given
    only where the action is `length`.  `layers` names the decodings passed through, outermost
    first: "json", "base64", "percent".  `by` is "emitter" or "pipeline".
    """

    path: str
    rule: str
    label: str
    action: str
    span_start: int | None = None
    span_end: int | None = None
    length: int | None = None
    layers: tuple[str, ...] = ()
    by: str = "pipeline"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A masked text (JSON or plain) with its declarations, in the order of their place."""

    text: str
    redactions: tuple[Redaction, ...]
