"""Texts that a stream brings in pieces, joined before a rule looks at them.

A secret that is cut in two is found in neither half.  So the pieces of a message are held back
until an event says that it is over, and stored as one text in the place of the first.  Of a message
whose start or end lies in another slice nothing is stored but its length and keyed hash: what the
slice holds of it may be the half of a secret.  All of it follows from the slice's events alone.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from pipeline.slices import Message
from redactors import Redaction
from redactors.masks import BLOB_LABEL, Masks
from redactors.texts import Text, replaced, texts_of
from schemas import RunEvent

JOINED, OPEN = "delta-joined", "delta-open"
"""What a piece declares: it stands with the first, or its message is not all in the slice."""

RUN_FINISHED: Final = "run.finished"

_KINDS: Final = frozenset({"message", "model.responded", "other"})
_STARTS: Final = frozenset({"run.started", "model.requested"})
_ENDS: Final = frozenset({"message", "model.responded", "error", RUN_FINISHED})
_MAYBE: Final = '"delta"'
# Where clients get pieces, perhaps as somebody wrapped them; deeper down a `delta` is anything.
_PIECE: Final = re.compile(
    r"(?:/(?:data|chunk|event|response|body))?(?:/choices/\d+)?/delta(?:/|$)"
)
_NAMED: Final = re.compile(r"(?:^|[._-])(?:delta|chunk|token)s?$", re.IGNORECASE)
_NO_TEXT: Final = frozenset({"type", "role", "id", "name", "object", "call_id", "model"})
_USER: Final = re.compile(r'"role"\s*:\s*"user"')  # who may speak while a model still does

_Place: TypeAlias = tuple[str, tuple[str, ...]]
"""Where the pieces of one text stand: path, and which of several by the members `…index`."""


class Rewritten(NamedTuple):
    """The event of a message as it is to be masked, and what is declared of it besides."""

    message: Message
    event: RunEvent
    redactions: tuple[Redaction, ...]


class _Piece(NamedTuple):
    message: Message
    event: RunEvent
    texts: tuple[Text, ...]


@dataclass(slots=True)
class _Run:
    """What a slice has shown of one attempt of a run; messages are told apart by their calls."""

    sequence: int | None = None  # of the latest event
    begun: set[str | None] = field(default_factory=set)  # what comes next is a message's start
    held: dict[str | None, list[_Piece]] = field(default_factory=dict)
    cut: set[str | None] = field(default_factory=set)  # of which something may be missing


def pieces_of(event: RunEvent) -> tuple[Text, ...]:
    """The texts of `event` that are pieces of longer ones; none: it is no delta."""
    if event.kind not in _KINDS:
        return ()
    if event.kind_name is not None and _NAMED.search(event.kind_name):
        return tuple(text for text in texts_of(event.body) if _is_said(text))
    if _MAYBE not in event.body:
        return ()
    return tuple(
        text for text in texts_of(event.body) if _PIECE.match(text.path) and _is_said(text)
    )


def _is_said(text: Text) -> bool:
    return text.path.rpartition("/")[2] not in _NO_TEXT


class Deltas:
    """The deltas that one open slice holds back."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._runs: defaultdict[tuple[str, int], _Run] = defaultdict(_Run)

    def hold(self, message: Message, event: RunEvent, texts: tuple[Text, ...]) -> None:
        """Keeps a delta until its message is over."""
        run, call = self._run(event), event.call_id
        if call not in run.held and call not in run.begun:
            run.cut.add(call)
        run.begun.discard(call)
        run.held.setdefault(call, []).append(_Piece(message, event, texts))

    def over(self, event: RunEvent) -> list[Rewritten]:
        """The deltas whose message is over now that `event` comes, which is none."""
        run, call = self._run(event), event.call_id
        is_end = event.kind in _ENDS and not _USER.search(event.body)
        if is_end or event.kind in _STARTS:
            run.begun.add(call)
        if event.kind == RUN_FINISHED:
            return self._let_go(run, list(run.held))
        return self._let_go(run, [call] if is_end and call in run.held else [])

    def rest(self) -> list[Rewritten]:
        """What is left at the slice's end: messages that are not over yet."""
        found: list[Rewritten] = []
        for run in self._runs.values():
            run.cut |= run.held.keys()
            found += self._let_go(run, list(run.held))
        return found

    def _run(self, event: RunEvent) -> _Run:
        """The event's run, which notices when an event is missing."""
        run = self._runs[event.run_id, event.attempt]
        if run.sequence is not None and event.sequence != run.sequence + 1:
            run.cut |= run.held.keys()
            run.begun.clear()
        run.sequence = event.sequence
        return run

    def _let_go(self, run: _Run, calls: list[str | None]) -> list[Rewritten]:
        found: list[Rewritten] = []
        for call in calls:
            found += self._rewritten(run.held.pop(call), is_whole=call not in run.cut)
            run.cut.discard(call)
        return found

    def _rewritten(self, pieces: list[_Piece], *, is_whole: bool) -> Iterator[Rewritten]:
        """The first piece of each text gets all of it, or what hides all of it, the others none."""
        whole: dict[_Place, str] = {}
        for piece in pieces:
            for text in piece.texts:
                place = text.path, text.numbers
                whole[place] = whole.get(place, "") + text.text
        for message, event, texts in pieces:
            new: dict[int, str] = {}
            declared: list[Redaction] = []
            for text in texts:
                joined = whole.pop((text.path, text.numbers), None)
                if joined is not None and is_whole:
                    new[text.token] = joined
                    continue
                put = self._hidden(text.text, joined)
                new[text.token] = put
                declared.append(_declared(text, put, JOINED if is_whole else OPEN))
            event = replace(event, body=replaced(event.body, new))
            yield Rewritten(message, event, tuple(declared))

    def _hidden(self, piece: str, joined: str | None) -> str:
        """The mask of a piece: of all of the text for the first, for others only of its length.

        A hash of each piece would be as good as the text: pieces are words, and words come again.
        """
        if joined is None or not self._masks.keyed:
            return self._masks.measured(BLOB_LABEL, len(piece))
        return self._masks.hashed(BLOB_LABEL, joined.encode("utf-8", "surrogatepass"))


def _declared(text: Text, put: str, rule: str) -> Redaction:
    return Redaction(
        path=text.path,
        rule=rule,
        label=BLOB_LABEL,
        action="length",
        span_start=0,
        span_end=len(put),
        length=len(text.text),
    )
