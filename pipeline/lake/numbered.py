"""Numbered entries in a folder, each an intent and then a commit, written where nothing stands."""

import json
from typing import TYPE_CHECKING

from pipeline.errors import LogError
from pipeline.lake.entries import encode
from pipeline.lake.layout import EntryKind
from pipeline.lake.store import Store

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class NumberedLog:
    """The entries of one folder; a writer is known by its entries' `claim`."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self.folder = store, folder

    def key(self, number: int, kind: EntryKind) -> str:
        return f"{self.folder}/{number:012}.{kind}"

    def read(self, number: int, kind: EntryKind) -> bytes | None:
        """The document of an entry; None if there is none."""
        return self.store.get_or_none(self.key(number, kind))

    def write(self, number: int, kind: EntryKind, entry: "DataclassInstance") -> bool:
        """Writes an entry, durable on return; False if another writer's stands in its place.

        The entry has a `claim`.  Finding the very same entry again is success: the first answer may
        have got lost.
        """
        document = encode(entry)
        if self.store.put_if_absent(self.key(number, kind), document):
            return True
        found = self.store.get(self.key(number, kind))
        if found == document:
            return True
        if json.loads(found).get("claim") == json.loads(document)["claim"]:
            raise LogError(
                "this writer wrote another entry under the same number before",
                code="contradiction",
                hint="start it again",
            )
        return False

    def last_number(self, first: int) -> int:
        """The number of the last commit; `first - 1` if commit `first` is not there.

        Commits have no holes, so their end is found by doubling steps and halving them again:
        a few look-ups however long the log.
        """
        low, step = first - 1, 1  # commit `low` is there
        while self.is_committed(low + step):
            low, step = low + step, step * 2
        high = low + step  # commit `high` is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.is_committed(middle) else (low, middle)
        return low

    def is_committed(self, number: int) -> bool:
        """Whether a commit of this number stands."""
        return self.store.exists(self.key(number, "commit"))
