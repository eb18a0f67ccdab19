"""A stored row against the record it came from: equal wherever the row declares nothing.

Written apart from the redactor on purpose: it shares none of its code.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Any, Final

from schemas import RunEvent

# Possessive: each character is looked at once.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[ \t\n\r]++|[^{}\[\],:" \t\n\r]++')
_SAME: Final = (
    "event_id", "run_id", "parent_run_id", "retry_of", "attempt", "sequence", "kind", "kind_name",
    "name", "call_id", "idempotency_key",
)  # fmt: skip

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Redactions = Sequence[Mapping[str, Any]]


def differs(row: Mapping[str, Any], event: RunEvent) -> str | None:
    """The name of the first column that differs outside what is declared; None if none does."""
    declared = {redaction["path"] for redaction in row["redactions"]}
    pairs = {name: (row[name], getattr(event, name)) for name in _SAME}
    producer = row["producer"] or {}
    pairs |= {
        "producer_name": (producer.get("name"), event.producer.name),
        "producer_version": (producer.get("version"), event.producer.version),
        "requested_class": (row["requested_class"], event.retention_class),
        "occurred_at": (row["occurred_at"], _time(event.occurred_at)),
        "captured_at": (row["captured_at"], _time(event.captured_at)),
        "subjects": (list(row["subjects"] or ()), list(event.subjects)),
    }
    for name, (ours, theirs) in pairs.items():
        if name not in declared and ours != theirs:
            return name
    return None if body_equals(row["body"], event.body, row["redactions"]) else "body"


def body_equals(stored: str, original: str, redactions: Redactions) -> bool:
    """Whether two JSON texts are the same, byte for byte, outside the declared spans.

    The texts are read in step, token by token.  Where they differ, both have a string or number
    whose pointer is declared, and the stored text outside the spans stands in the original.
    """
    if stored == original:
        return True
    by_path: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for redaction in redactions:
        by_path[redaction["path"]].append(redaction)
    place = _Place()
    for ours, theirs in zip_longest(_TOKEN.findall(stored), _TOKEN.findall(original)):
        if ours is None or theirs is None:
            return False
        is_key = place.take(ours)
        if ours != theirs and not _is_declared(ours, theirs, is_key, by_path[place.pointer()]):
            return False
    return True


@dataclass(slots=True)
class _Place:
    """Where in a document the reader is: one step for each container on the way down."""

    steps: list[str | int] = field(default_factory=list)
    awaits_key: list[bool] = field(default_factory=list)

    def take(self, token: str) -> bool:
        """Moves past one token; whether it is a key."""
        if token in ("{", "["):
            self.steps.append("" if token == "{" else 0)
            self.awaits_key.append(token == "{")
        elif token in ("}", "]"):
            self.steps.pop()
            self.awaits_key.pop()
        elif token == ",":
            last = self.steps[-1]
            self.steps[-1] = last + 1 if isinstance(last, int) else ""
            self.awaits_key[-1] = not isinstance(last, int)
        elif token.startswith('"') and self.awaits_key and self.awaits_key[-1]:
            self.steps[-1], self.awaits_key[-1] = json.loads(token), False
            return True
        return False

    def pointer(self) -> str:
        escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in self.steps)
        return "".join(f"/{step}" for step in escaped)


def _is_declared(stored: str, original: str, is_key: bool, redactions: Redactions) -> bool:
    concerned = [r for r in redactions if ("key" in r["layers"]) == is_key]
    if not concerned or not _is_scalar(stored) or not _is_scalar(original):
        return False
    depth = 1 if is_key else 0
    text, spans = _text(stored), []
    for redaction in concerned:
        layers = list(redaction["layers"])[depth:]
        # Deeper than one layer the span no longer speaks of this text: all of it is declared.
        if redaction["span_start"] is None or layers not in ([], ["json"]):
            return True
        spans.append(_with_quotes(text, redaction["span_start"], redaction["span_end"]))
    return _holds_rest(text, _text(original), sorted(spans))


def _with_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """The span with quotes around it: a number masked in a document in a string gets them."""
    is_quoted = text[start - 1 : start] == '"' == text[end : end + 1]
    return (start - 1, end + 1) if is_quoted else (start, end)


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def _is_scalar(token: str) -> bool:
    return token[0] == '"' or token[0] in "-0123456789"


def _text(token: str) -> str:
    return str(json.loads(token)) if token[0] == '"' else token


def _holds_rest(stored: str, original: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether what `stored` has outside the spans stands in `original` in this order."""
    first, last = spans[0][0], spans[-1][1]
    if not original.startswith(stored[:first]) or not original.endswith(stored[last:]):
        return False
    reached, end = first, len(original) - len(stored[last:])
    for (_, before), (after, _) in pairwise(spans):
        piece = stored[before:after]
        found = original.find(piece, reached, end)
        if found < 0:
            return False
        reached = found + len(piece)
    return reached <= end
