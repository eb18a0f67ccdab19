"""Opens runs for somebody: for a purpose where a class wants one, written down, and with a word on
what of the run is gone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pipeline.errors import UsageError
from pipeline.lake.layout import parse_bucket
from pipeline.lake.live import Lake
from pipeline.records.reading import Row, RunView, read_run
from pipeline.retention.access import note_read
from pipeline.retention.tombstones import Tombstone, removals_at, removals_of_run
from redactors import KeyRing


def _dated(value: Any, record: Row, known: frozenset[str], gone: Sequence[Tombstone]) -> Any:
    """A record in which what it refers to and expired early ends when it did: a policy that was
    shortened reaches events, not what records said of them."""
    if isinstance(value, list):
        return [_dated(each, record, known, gone) for each in value]
    if not isinstance(value, dict):
        return value
    if "is_embedded" not in value:
        return {name: _dated(each, record, known, gone) for name, each in value.items()}
    at = record["kafka_topic"], record["kafka_partition"], *[value["kafka_offset"]] * 2
    ended = [each.when_us for each in removals_at(gone, *at) if each.why != "erase"]
    if value["event_id"] in known or not ended:
        return value
    return {
        **value,
        "deadline": min(value["deadline"], datetime.fromtimestamp(ended[0] / 1e6, UTC)),
    }


@dataclass(frozen=True, slots=True)
class Opener:
    """Reads runs on behalf of `by`, with `command`; `keys` name runs in tombstones (None: what was
    removed cannot be asked for)."""

    lake: Lake
    by: str
    command: str
    purpose: str | None
    clock_us: Callable[[], int]
    keys: KeyRing | None

    def open(self, run_id: str) -> RunView:
        """Everything that is left of a run; written down before it is handed out.

        Raises `UsageError` if the lake does not know it ("unknown-run"), if it is gone
        ("removed-run"), or if one of its classes is read for a purpose only.
        """
        try:
            view = read_run(self.lake, run_id)
        except UsageError as error:
            if error.code == "unknown-run":
                self._raise_if_removed(run_id)
            raise
        buckets = (parse_bucket(path) for path in view.files)
        note_read(
            self.lake,
            now_us=self.clock_us(),
            by=self.by,
            command=self.command,
            purpose=self.purpose,
            run=run_id,
            classes={bucket.retention_class for bucket in buckets if bucket is not None},
        )
        if self.keys is None or not view.is_partial:
            return view
        gone = removals_of_run(self.lake.store, run_id, self.keys)
        known = frozenset(event["event_id"] for event in view.events)
        records = tuple(_dated(record, record, known, gone) for record in view.records)
        return replace(view, records=records, removals=gone)

    def _raise_if_removed(self, run_id: str) -> None:
        if self.keys is None:
            return
        if gone := removals_of_run(self.lake.store, run_id, self.keys):
            how = "was erased" if gone[-1].why == "erase" else "has expired"
            raise UsageError(
                f"the run {how}: nothing of it is left",
                code="removed-run",
                hint="`redactory retention log` shows what was removed when",
            ) from None
