"""Masks stored rows again: nothing that is masked is touched, what the rules find besides goes.

Pure: rows in, rows out.  A row that cannot be examined in full under these rules stays as it is,
under the ruleset that it names, and is counted.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.contents import Flags
from pipeline.lake.proof.leaks import IDENTIFIERS
from pipeline.review.rescrub.merging import merged
from redactors import Redacted, Redaction, Redactor, RunMemory, Unexaminable

BATCH_ROWS: Final = 2_000
"""Rows that are taken out of Arrow at a time, and names that are examined at once."""

Row = dict[str, Any]


@dataclass(slots=True)
class Counts:
    """What was done: rows that were examined, those of them that changed, changes by rule, rows
    that are held back by a hold, and rows that could not be examined."""

    rows: int = 0
    changed: int = 0
    redactions: Counter[str] = field(default_factory=Counter)
    held: int = 0
    unexaminable: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return plain | {"redactions": dict(sorted(self.redactions.items()))}


class Scrubber:
    """Masks rows under `redactor` and what their runs' `memories` hold; adds to `counts`."""

    def __init__(self, redactor: Redactor, memories: Mapping[str, RunMemory]) -> None:
        self.redactor, self.memories = redactor, memories
        self.counts = Counts()

    def events(self, rows: pa.Table, chosen: Flags) -> pa.Table | None:
        """The rows of `events` with those at `chosen` masked again; None if none is to change."""
        return self._in_batches(rows, chosen, self._events)

    def dead_letters(self, rows: pa.Table, chosen: Flags) -> pa.Table | None:
        """The same for `dead_letters`: of what came they hold the headers' names only."""
        return self._in_batches(rows, chosen, self._dead_letters)

    def _in_batches(self, rows: pa.Table, chosen: Flags, scrub: Any) -> pa.Table | None:
        done, is_new = [], False
        for start in range(0, rows.num_rows, BATCH_ROWS):
            batch = rows.slice(start, BATCH_ROWS)
            new = scrub(batch, chosen[start : start + BATCH_ROWS])
            is_new |= new is not None
            done.append(batch if new is None else new)
        return pa.concat_tables(done) if is_new else None

    def _events(self, rows: pa.Table, chosen: Flags) -> pa.Table | None:
        older = chosen & self.older(rows)
        runs, bodies = (list(map(str, rows[name].to_pylist())) for name in ("run_id", "body"))
        renames = self._renames(rows, older)
        stamped, changed = older.copy(), dict[int, Row]()
        for index in np.flatnonzero(chosen).tolist():
            memory = self.memories.get(runs[index])
            if not older[index] and not memory:
                continue
            self.counts.rows += 1
            try:
                body = self.redactor.redact_json(bodies[index], memory)
            except Unexaminable:
                self.counts.unexaminable += 1
                stamped[index] = False
                continue
            row = self._changed_event(rows, index, body, renames if older[index] else {})
            if row is not None:
                changed[index] = row
        return self._written(rows, stamped, changed, key_id=self.redactor.key_id)

    def _dead_letters(self, rows: pa.Table, chosen: Flags) -> pa.Table | None:
        older = chosen & self.older(rows)
        changed = {}
        for index in np.flatnonzero(older).tolist():
            self.counts.rows += 1
            names = rows["header_names"][index].as_py() or []
            kept, made = self.redactor.redact_identifiers(
                {str(number): name for number, name in enumerate(names)}
            )
            if made:
                self._count(made)
                changed[index] = _row(rows, index) | {"header_names": list(kept.values())}
        return self._written(rows, older, changed, key_id=None)

    def older(self, rows: pa.Table) -> Flags:
        """Which rows stand under other rules."""
        same = pc.equal(rows["ruleset"], pa.scalar(self.redactor.digest))
        flags: Flags = ~same.to_numpy()
        return flags

    def _renames(self, rows: pa.Table, older: Flags) -> dict[tuple[str, str], Redaction]:
        """The names that are not to stay, by column and value, each with its declaration."""
        chosen = rows.filter(pa.array(older))
        values: list[tuple[str, str]] = []
        for column, found in _name_columns(chosen):
            values += [(column, value) for value in found.unique().to_pylist() if value is not None]
        found_out: dict[tuple[str, str], Redaction] = {}
        for start in range(0, len(values), BATCH_ROWS):
            batch = {str(number): v for number, (_, v) in enumerate(values[start:][:BATCH_ROWS])}
            for made in self.redactor.redact_identifiers(batch)[1]:
                found_out[values[start + int(made.path)]] = made
        return found_out

    def _changed_event(
        self,
        rows: pa.Table,
        index: int,
        body: Redacted,
        renames: Mapping[tuple[str, str], Redaction],
    ) -> Row | None:
        if not body.redactions and not renames:
            return None
        row = _row(rows, index)
        renamed = list(_rename(row, renames, self.redactor))
        if not body.redactions and not renamed:
            return None
        replaced = {redaction.path for redaction in renamed}
        declared = [each for each in row["redactions"] if each["path"] not in replaced]
        kept = merged(declared, row["body"], body.text, body.redactions)
        made = (*body.redactions, *renamed)
        self._count(made)
        row["redactions"] = [*kept, *map(_as_dict, made)]
        return row | {"body": body.text}

    def _written(
        self, rows: pa.Table, stamped: Flags, changed: Mapping[int, Row], *, key_id: str | None
    ) -> pa.Table | None:
        """The rows with what changed; `key_id` None: that of the row says more than its masks."""
        if not stamped.any() and not changed:
            return None
        about = {"ruleset": self.redactor.digest} | ({"key_id": key_id} if key_id else {})
        others = np.ones(rows.num_rows, np.bool_)
        others[list(changed)] = False
        rest = _stamped(rows, stamped, self.redactor.digest).filter(pa.array(others))
        listed = [row | about for row in changed.values()]
        return pa.concat_tables([rest, pa.Table.from_pylist(listed, schema=rows.schema)])

    def _count(self, made: Collection[Redaction]) -> None:
        self.counts.changed += 1
        self.counts.redactions.update(redaction.rule for redaction in made)


def _stamped(rows: pa.Table, stamped: Flags, digest: str) -> pa.Table:
    at = rows.schema.get_field_index("ruleset")
    column = pc.if_else(pa.array(stamped), pa.scalar(digest), rows["ruleset"])
    return rows.set_column(at, rows.schema.field(at), column)


def _name_columns(rows: pa.Table) -> Iterator[tuple[str, "pa.ChunkedArray[Any]"]]:
    """The columns that hold names, those of the producer under the names declarations give them."""
    for name in IDENTIFIERS:
        yield name, rows[name]
    for name in ("name", "version"):
        yield f"producer_{name}", pc.struct_field(rows["producer"], name)


def _rename(
    row: Row, renames: Mapping[tuple[str, str], Redaction], redactor: Redactor
) -> Iterator[Redaction]:
    if not renames:
        return
    holders = [(name, row, name) for name in IDENTIFIERS]
    holders += [(f"producer_{name}", row["producer"] or {}, name) for name in ("name", "version")]
    for column, holder, name in holders:
        made = renames.get((column, holder.get(name) or ""))
        if made is not None:
            holder[name] = redactor.pseudonym(holder[name], made.label)
            yield Redaction(column, made.rule, made.label, made.action, by=made.by)


def _row(rows: pa.Table, index: int) -> Row:
    (row,) = rows.slice(index, 1).to_pylist()
    return row


_FIELDS: Final = tuple(each.name for each in fields(Redaction))


def _as_dict(redaction: Redaction) -> Row:
    return {name: getattr(redaction, name) for name in _FIELDS}
