"""Runs as data: short notations for the events of a run, and slices and records made of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.assemble import Assembler
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.retention.policy import Policy, load_policy
from pipeline.slices import MaskedSlice, Part, SliceHeader
from schemas.parquet import EVENTS

NOW_US = 1_790_000_000_000_000  # 2026-09-21T14:13:20Z
HOUR_US = 3_600_000_000
TIMEOUT_US = 24 * HOUR_US
DIGEST = "ab" * 32
POLICY: Policy = load_policy()


def row(offset: int, event: Mapping[str, Any], now_us: int = NOW_US) -> dict[str, Any]:
    """A row of `events` at an offset; `event` has what differs from a plain message.

    `at_s` is its time in seconds after `NOW_US`, `class` its retention class, `redacted` the rules
    that masked something in its body.
    """
    occurred_us = NOW_US + int(event.get("at_s", 0) * 1_000_000)
    placement = POLICY.place(occurred_us, None, event.get("class"), now_us)
    columns = {name: value for name, value in event.items() if name in EVENTS.names}
    return {
        "event_id": f"event-{event.get('run_id', 'run')}-{event.get('sequence', offset)}",
        "run_id": "run",
        "attempt": 1,
        "sequence": offset,
        "kind": "message",
        "producer": {"name": "test", "version": "1"},
        "ruleset": DIGEST,
        "key_id": "k1",
        "kafka_topic": "runs",
        "kafka_partition": 0,
        "kafka_offset": offset,
        "ingested_at": now_us,
        "occurred_at": occurred_us,
        "deadline": placement.deadline_us,
        **columns,
        "body": json.dumps(event.get("body", {})),
        "redactions": [{"path": "/x", "rule": rule} for rule in event.get("redacted", ())],
    }


def sliced(
    events: Sequence[Mapping[str, Any]], start: int, end: int, now_us: int = NOW_US
) -> MaskedSlice:
    """Events `[start, end)`, each at the offset that is its index, as a masked slice."""
    places: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for offset in range(start, end):
        event = events[offset]
        occurred_us = NOW_US + int(event.get("at_s", 0) * 1_000_000)
        place = POLICY.place(occurred_us, None, event.get("class"), now_us)
        rows = places.setdefault((place.retention_class, place.expires), [])
        rows.append(row(offset, event, now_us))
    parts = tuple(
        Part("events", *place, pa.Table.from_pylist(rows, schema=EVENTS))
        for place, rows in sorted(places.items())
    )
    counts = {"messages": end - start, "events": end - start}
    header = SliceHeader(
        "runs", "topic-id", 0, start, end, now_us, DIGEST, POLICY.digest, "k1", counts
    )
    return MaskedSlice(header, parts)


def tick(at: int, now_us: int) -> MaskedSlice:
    """A slice without offsets: time passes."""
    return sliced([], at, at, now_us)


class Ingest:
    """A reader's end of a lake: slices in, records out; `restart` forgets all but the lake."""

    def __init__(self, store: Store, timeout_us: int = TIMEOUT_US) -> None:
        self.store, self._timeout_us = store, timeout_us
        store_policy(store, POLICY.digest, POLICY.document)
        self.restart()

    def restart(self) -> None:
        self._assembler = Assembler(self.store, self._timeout_us)
        self._committer = SliceCommitter(self.store, "c" * 32, lambda: NOW_US)

    def take(self, masked: MaskedSlice) -> bool:
        """Assembles, writes and commits a slice; False if there was nothing to commit."""
        assembled = self._assembler.assemble(masked)
        written = self._committer.write(assembled) if assembled is not None else None
        if written is not None:
            self._committer.commit(written)
        return written is not None

    def take_all(self, events: Sequence[Mapping[str, Any]], cuts: Iterable[int] = ()) -> None:
        """All events, cut into slices at `cuts`."""
        ends = sorted({*cuts, len(events)} - {0})
        for start, end in zip([0, *ends], ends, strict=False):
            self.take(sliced(events, start, end))

    def records(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The latest record of each attempt."""
        latest: dict[tuple[str, int], dict[str, Any]] = {}
        for record in self.versions():
            key = record["run_id"], record["attempt"]
            if key not in latest or record["version"] >= latest[key]["version"]:
                latest[key] = record
        return latest

    def versions(self) -> list[dict[str, Any]]:
        """Every record there is."""
        return [
            record | {"path": file.path}
            for file in read_lake(self.store).files["runs"]
            for record in from_parquet(self.store.get(file.path)).to_pylist()
        ]


def states(record: Mapping[str, Any]) -> dict[str, str]:
    """The state of each row of a record."""
    return {each["row"]: each["state"] for each in record["completeness"]}


def gaps(record: Mapping[str, Any]) -> set[tuple[str, str]]:
    """(field, reason) of everything that a record says is missing."""
    return {(gap["field"], gap["reason"]) for gap in record["missing"]}
