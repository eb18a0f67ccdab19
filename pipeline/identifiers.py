"""An event's names and ids: columns of their own, each of which may carry a secret all the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, TypeAlias

from redactors import Redaction, Redactor, Unexaminable
from schemas import RunEvent

MAX_KNOWN, MAX_LENGTH = 4_096, 256
"""Names that are remembered as examined, and how long they may be."""

TOGETHER: Final = 512
"""Names that are examined in one scan, which takes hardly longer than one name's."""

_COLUMNS: Final = {
    "event_id": "event_id",
    "call_id": "call_id",
    "idempotency_key": "idempotency_key",
    "run_id": "run_id",
    "parent_run_id": "parent_run_id",
    "retry_of": "retry_of",
    "kind_name": "kind_name",
    "name": "name",
    "producer_name": "producer.name",
    "producer_version": "producer.version",
    "requested_class": "retention_class",
}
"""From the column to where it stands in an event."""

_NAMES: Final = tuple(_COLUMNS)
_values = attrgetter(*_COLUMNS.values())

_Kept: TypeAlias = tuple[str, Redaction | None]
"""What becomes of a name, and what is declared of it, whichever column it is in."""


class Identifiers:
    """Examines names under one redactor.  What comes of a name depends on nothing else."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._clean: set[str | None] = {None}
        self._changed: dict[str | None, _Kept] = {}

    def learn(self, events: Iterable[RunEvent]) -> None:
        """Examines the names of `events` together; those that are not, `of` examines one by one."""
        seen = dict.fromkeys(value for event in events for value in _values(event))
        short = [value for value in seen if value is not None and len(value) <= MAX_LENGTH]
        new = [value for value in short if value not in self._clean and value not in self._changed]
        if len(self._clean) + len(self._changed) + len(new) > MAX_KNOWN:
            self._clean, self._changed, new = {None}, {}, short
        for at in range(0, len(new), TOGETHER):
            self._learn(new[at : at + TOGETHER])

    def of(self, event: RunEvent) -> tuple[dict[str, str | None], list[Redaction]]:
        """The event's names by column (None: it has none), and what was done to them.

        Raises Unexaminable.
        """
        values = _values(event)
        names = dict(zip(_NAMES, values, strict=True))
        if self._clean.issuperset(values):
            return names, []
        renamed: list[Redaction] = []
        for column, value in names.items():
            if value is None or value in self._clean:
                continue
            names[column], change = self._changed.get(value) or next(self._examined([value]))
            if change is not None:
                renamed.append(replace(change, path=column))
        return names, renamed

    def _learn(self, values: Sequence[str]) -> None:
        try:
            examined = self._examined(values)
        except Unexaminable:  # one of them, or only all of them together
            return
        for value, kept in zip(values, examined, strict=True):
            if kept[1] is None:
                self._clean.add(value)
            else:
                self._changed[value] = kept

    def _examined(self, values: Sequence[str]) -> Iterator[_Kept]:
        columns = {str(index): value for index, value in enumerate(values)}
        kept, changes = self._redactor.redact_identifiers(columns)
        change_of = {change.path: change for change in changes}
        return ((kept[column], change_of.get(column)) for column in columns)
