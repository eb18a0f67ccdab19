"""Two runs that hold what only stricter rules find, a lake of them, and what it holds."""

import itertools
import json
import time
from pathlib import Path
from typing import Any

from demo_lake import ingest_events
from redaction_samples import KEYS, aws_key, email, field, password, rule, small_ruleset

from pipeline.lake.layout import new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.lake.verify import Checks, verify
from pipeline.records.proof import check_states
from pipeline.records.state import unpack
from pipeline.retention.ledger import Ledger
from pipeline.review.rescrub.run import Outcome, Rescrubber
from pipeline.state.chain import read_chain
from pipeline.state.open_runs import OpenRuns
from redactors import Ruleset
from schemas import RunEvent

OURS, CODE, NAME = "ours_" + "q" * 8, "heron 4471 basalt", "Featherstonehaugh-Smythe"
"""What only the new rules find, what a field shows late under them, and late under the old ones."""

OLD = small_ruleset()
NEW = small_ruleset(
    rule("ours", "ours_[a-z]{8}"), field("badge", "badge", label="BADGE", propagate=True)
)
NOW_US = time.time_ns() // 1_000
LATER_US = NOW_US + 3_600_000_000
TICKS = itertools.count(LATER_US)


def bodies() -> list[tuple[str, str, dict[str, Any]]]:
    """(run, kind, body) of two runs: the first has ended, the second is open."""
    closed = [
        ("run.started", {"trigger": {"type": "ticket", "note": f"{OURS} by {email()}"}}),
        (
            "message",
            {"role": "user", "content": f"code {CODE}, write to {email()} or {OURS}"},
        ),
        ("task.captured", {"task": {"goal": f"find {OURS} for {email(2)}"}, "source": "tickets"}),
        ("model.requested", {"provider": "acme", "messages": f"{OURS} {aws_key()} {OURS}"}),
        ("message", {"badge": CODE, "password": password(), "inner": json.dumps({"a": OURS})}),
        ("decision.made", {"decision": "merge", "actor": "agent", "reason": f"as {CODE} said"}),
        ("run.finished", {"status": "completed"}),
    ]
    is_open = [
        ("run.started", {"trigger": {"note": f"for {NAME} and {OURS}"}}),
        ("message", {"content": f"{NAME} has asked"}),
        ("message", {"lastname": NAME}),
    ]
    every = [("closed", *each) for each in closed] + [("open", *each) for each in is_open]
    return [(run, kind, body) for run, kind, body in every]


def run_events() -> list[RunEvent]:
    numbers: dict[str, int] = {}
    made = []
    for run, kind, body in bodies():
        sequence = numbers[run] = numbers.get(run, -1) + 1
        made.append(
            RunEvent(
                event_id=f"{run}-{sequence}",
                run_id=run,
                sequence=sequence,
                occurred_at=NOW_US + sequence,
                kind=kind,
                body=json.dumps(body, separators=(",", ":")),
            )
        )
    return made


def lake(folder: Path, ruleset: Ruleset) -> Store:
    made = ingest_events(folder, run_events(), NOW_US, 3, keys=KEYS, ruleset=ruleset)
    return made.store


def rescrubber(store: Store, ruleset: Ruleset = NEW, **more: Any) -> Rescrubber:
    given = {"with_open_runs": True, **more}
    return Rescrubber(store, new_claim(), "tester", lambda: next(TICKS), ruleset, KEYS, **given)


def rescrub(store: Store, ruleset: Ruleset = NEW, **more: Any) -> Outcome:
    return rescrubber(store, ruleset, **more).rescrub("new rules")


def rows(store: Store, table: Any = "events") -> list[dict[str, Any]]:
    files = read_lake(store).files[table]
    found = [from_parquet(store.get(f.path), keys=store.bucket_keys).to_pylist() for f in files]
    every = (row for listed in found for row in listed)
    return sorted(every, key=lambda row: repr(row.get("event_id")))


def held_texts(store: Store) -> str:
    """Everything that rows and the state of open runs say."""
    said = [repr(rows(store, table)) for table in ("events", "runs")]
    last = read_lake(store).histories[0].position.last_commit
    assert last is not None
    open_runs = OpenRuns(read_chain(store, "demo", 0, last.state_digest))
    return " ".join([*said, *(repr(unpack(e.payload or b"")) for e in open_runs.oldest())])


def is_whole(store: Store) -> bool:
    keys = Path(store.location).parent / "keys.json"
    report = verify(
        store.location, Checks(newer=False, keys=keys, processes=1), beside=check_states
    )
    assert report.findings == () and Ledger(store, "").check() == ()
    return True
