"""What a lake holds, compared with what was sent: the verdict after a schedule."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash.canaries import Search
from crash.traffic import Sent

from pipeline.lake.datasets import dataset
from pipeline.lake.layout import entry_key, parse_data_file
from pipeline.lake.live import open_lake
from pipeline.lake.verify import Checks, verify
from pipeline.records.proof import check_states

Place = tuple[int, int]
"""(partition, offset)"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Good: every message is in the lake once, as it should be, and nothing is raw.

    `lost` counts places that should hold a row and do not, but for the events that the log says
    were refused or removed; `invented` are those that hold one and should not; `changed` those
    whose row is not their message.
    """

    sent: int
    canaries: int
    lost: int
    doubled: tuple[Place, ...]
    invented: tuple[Place, ...]
    changed: tuple[Place, ...]
    raw: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        wrong = (self.lost, self.doubled, self.invented, self.changed, self.raw, self.findings)
        return not any(wrong)


def judge(
    lake: Path, keys: Path, sent: Mapping[Place, Sent], search: Search, *folders: Path
) -> Verdict:
    """Verifies the lake, compares it with what was sent, and searches it and `folders`."""
    report = verify(str(lake), Checks(keys=keys, processes=1), beside=check_states)
    opened = open_lake(lake)
    columns = ["kafka_partition", "kafka_offset"]
    events = dataset(opened, "events").to_table(columns=[*columns, "event_id", "body"])
    letters = dataset(opened, "dead_letters").to_table(columns=columns).to_pylist()
    rows = {(row["kafka_partition"], row["kafka_offset"]): row for row in events.to_pylist()}
    bad = {(row["kafka_partition"], row["kafka_offset"]) for row in letters}
    counted = Counter(
        (row["kafka_partition"], row["kafka_offset"]) for row in [*events.to_pylist(), *letters]
    )
    expected_events = {at for at, each in sent.items() if each.kind in ("clean", "canary")}
    expected_bad = {at for at, each in sent.items() if each.kind == "bad"}
    not_stored = sum(each.refused + each.expired + each.removed for each in report.partitions)
    missing = (expected_events - rows.keys()) | (expected_bad - bad)
    return Verdict(
        sent=len(sent),
        canaries=sum(each.kind == "canary" for each in sent.values()),
        lost=len(missing) - not_stored,
        doubled=tuple(sorted(at for at, count in counted.items() if count > 1)),
        invented=tuple(sorted((rows.keys() - expected_events) | (bad - expected_bad))),
        changed=tuple(
            sorted(at for at, row in rows.items() if at in sent and _is_changed(sent[at], row))
        ),
        raw=tuple(f"{s} in {path}" for s, path in search.in_folders(lake, *folders).items()),
        findings=tuple(
            f"{found.code} {found.path}"
            for found in report.violations
            # What lies in a bucket that has ended by a worker's clock is no part of the lake, and
            # goes with the next sweep.
            if found.code != "file-outside" or not _is_ended(lake, found.path)
        ),
    )


def _is_ended(lake: Path, path: str) -> bool:
    """Whether a sweep removed the file, or its slice was committed after its bucket had ended."""
    sweeps = map(_read, lake.glob("_log/_rewrites/**/*.commit"))
    if any(path == file["path"] for sweep in sweeps for file in sweep["removed"]):
        return True
    file = parse_data_file(path)
    if file is None:
        return False
    entry = lake / entry_key(file.topic, file.partition, file.number, "commit")
    return entry.exists() and _read(entry)["expired"] > 0


def _read(entry: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(entry.read_bytes())
    return document


def _is_changed(sent: Sent, row: Mapping[str, str]) -> bool:
    """Whether a row is not its message: another id, a clean body not as sent, a canary left."""
    is_same = hashlib.sha256(row["body"].encode()).hexdigest() == sent.body_sha256
    return row["event_id"] != sent.event_id or is_same != (sent.kind == "clean")
