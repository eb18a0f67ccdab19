"""What run records cost and give: the fold, `runs show`, the ten questions, a million open runs.

    python benchmarks/bench_records.py [--events 200000] [--open-runs 50000]

The full size is 5,000,000 events (50,000 runs) and 1,000,000 open runs.  The lake is made without a
broker or masking, 100 events a run and 20,000 a slice.  Each question is also put to the same rows
in one sorted file a table: the ratio to that is what many files cost.
"""

import argparse
import json
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from pipeline.assemble import Assembler
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.datasets import dataset
from pipeline.lake.documents import store_policy
from pipeline.lake.layout import new_claim
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.parquet import to_parquet
from pipeline.lake.query import query
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter, crowded_buckets
from pipeline.lake.views import VIEWS
from pipeline.records.events import Event, Life
from pipeline.records.fold import begin, fold
from pipeline.records.reading import read_run
from pipeline.records.state import pack
from pipeline.retention.policy import load_policy
from pipeline.slices import MaskedSlice, Part, SliceHeader
from pipeline.state.document import Entry
from pipeline.state.open_runs import OpenRuns
from schemas.parquet import EVENTS

EVENTS_A_RUN = 100
SLICE = 20_000
DIGEST = "ab" * 32
POLICY = load_policy()
QUESTIONS = re.findall(
    r"## (.+?)\n.*?```sql\n(.+?)```",
    (Path(__file__).parents[1] / "docs" / "questions.md").read_text(),
    re.DOTALL,
)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--open-runs", type=int, default=50_000)
    options = parser.parse_args()
    open_runs(options.open_runs)  # first: its memory is told by the peak of the process
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "lake", create=True)
        make_lake(store, options.events)
        single = one_file_a_table(read_lake(store), Path(folder))
        for when in ("before compaction", "after compaction"):
            print(f"\n{when}")
            show(read_lake(store), options.events)
            ask(read_lake(store), single)
            for bucket in crowded_buckets(read_lake(store), 2):
                Rewriter(store, new_claim(), time.time_ns() // 1000).compact(bucket)


def make_lake(store: Store, count: int) -> None:
    """Assembles and commits `count` events; prints the assembler's share."""
    store_policy(store, POLICY.digest, POLICY.document)
    now_us = time.time_ns() // 1000
    assembler = Assembler(store, 24 * 3_600_000_000)
    committer = SliceCommitter(store, new_claim())
    assemble_s = 0.0
    for start in range(0, count, SLICE):
        end = min(start + SLICE, count)
        rows = pa.Table.from_pylist(list(event_rows(start, end, now_us)), schema=EVENTS)
        place = POLICY.place(now_us, None, None, now_us)
        part = Part("events", place.retention_class, place.expires, rows)
        header = SliceHeader("bench", "id", 0, start, end, now_us, DIGEST, POLICY.digest, "k1")
        began_s = time.perf_counter()
        assembled = assembler.assemble(MaskedSlice(header, (part,)))
        assemble_s += time.perf_counter() - began_s
        assert assembled is not None
        written = committer.write(assembled)
        assert written is not None
        committer.commit(written)
    print(f"{count:,} events, {count // EVENTS_A_RUN:,} runs")
    print(f"assembling: {1e6 * assemble_s / count:.1f} µs an event")


def event_rows(start: int, end: int, now_us: int) -> Iterator[dict[str, Any]]:
    """Rows of runs that take turns, 200 at a time."""
    deadline_us = POLICY.place(now_us, None, None, now_us).deadline_us
    together = SLICE // EVENTS_A_RUN
    for offset in range(start, end):
        block, at = divmod(offset, SLICE)
        sequence, index = divmod(at, together)
        random = Random(offset)
        kind, name, call_id, body = step(sequence, random)
        yield {
            "event_id": f"event-{offset:09}",
            "run_id": f"run-{random_id(block * together + index)}",
            "attempt": 1,
            "sequence": sequence,
            "occurred_at": now_us + offset * 1000,
            "kind": kind,
            "name": name,
            "call_id": call_id,
            "body": json.dumps(body),
            "redactions": [{"path": "/content", "rule": "email"}] if offset % 16 == 0 else [],
            "ruleset": DIGEST,
            "key_id": "k1",
            "kafka_topic": "bench",
            "kafka_partition": 0,
            "kafka_offset": offset,
            "ingested_at": now_us,
            "deadline": deadline_us,
        }


def random_id(index: int) -> str:
    """A run id that says nothing about its neighbours."""
    return f"{Random(index).getrandbits(64):016x}"


def step(sequence: int, random: Random) -> tuple[str, str | None, str | None, dict[str, Any]]:
    """(kind, name, call id, body) of the event at a place in a run."""
    fixed: dict[int, tuple[str, str | None, str | None, dict[str, Any]]] = {
        0: ("run.started", None, None, {"trigger": {"type": "ticket"}, "parent": None}),
        1: ("task.captured", None, None, {"task": {"goal": "x" * 300}, "source": "tickets"}),
        2: ("workspace.captured", None, None, {"repository": "r", "commit": "main"}),
        3: ("policy.captured", None, None, {"factory_revision": "1", "prompts": []}),
        94: ("artifact.produced", "patch", None, {"digest": f"sha256:{'0' * 64}"}),
        95: ("decision.made", None, None, {"decision": "merge", "actor": "agent"}),
        96: ("effect.intended", "merge", "e", {"actor": "agent", "capability": "repo"}),
        97: ("effect.completed", "merge", "e", {"status": "ok"}),
        98: ("input.declared", "tickets", None, {"input": "tickets", "state": "mutable"}),
        99: ("run.finished", None, None, {"status": "completed"}),
    }
    if sequence in fixed:
        return fixed[sequence]
    call, content = f"call-{sequence // 4}", "".join(random.choices("abcdefgh  ", k=600))
    usage = {"input_tokens": random.randrange(5000), "output_tokens": random.randrange(500)}
    answer = {"returned_model": "large-1-2026", "usage": usage, "message": content}
    return (
        ("model.requested", "large-1", call, {"provider": "acme", "messages": content}),
        ("model.responded", "large-1", call, {"provider": "acme", **answer}),
        ("tool.requested", "shell", call, {"arguments": content}),
        ("tool.responded", "shell", call, {"content": content, "status": "ok"}),
    )[sequence % 4]


def show(lake: Lake, count: int) -> None:
    """`runs show` of runs here and there: time and share of the bytes."""
    runs = range(0, count // EVENTS_A_RUN, max(1, count // EVENTS_A_RUN // 5))
    times_s, shares = [], []
    for index in runs:
        times_s.append(timed(lambda: read_run(lake, f"run-{random_id(index)}")))  # noqa: B023
        view = read_run(lake, f"run-{random_id(index)}")
        assert len(view.events) == EVENTS_A_RUN
        shares.append(100 * view.bytes_read / view.bytes_total)
    opening_s = timed(lambda: read_lake(lake.store))
    print(
        f"runs show: {1000 * max(times_s):.0f} ms at most, {max(shares):.2f} % of the bytes; "
        f"opening the lake {1000 * opening_s:.0f} ms"
    )


def one_file_a_table(lake: Lake, folder: Path) -> duckdb.DuckDBPyConnection:
    """The same rows, each table in one sorted file, under the same views."""
    session = duckdb.connect()
    for table, name in (("events", "events"), ("runs", "run_versions")):
        path = folder / f"{table}.parquet"
        path.write_bytes(to_parquet(dataset(lake, table).to_table()))  # type: ignore[arg-type]
        session.execute(f"CREATE VIEW {name} AS FROM '{path}'")
    for view in VIEWS:
        session.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    return session


def ask(lake: Lake, single: duckdb.DuckDBPyConnection) -> None:
    """Every question: seconds, and the ratio to one sorted file."""
    for title, sql in QUESTIONS:
        many_s = timed(lambda: list(query(lake, sql).rows))  # noqa: B023
        one_s = timed(lambda: single.sql(sql).fetchall())  # noqa: B023
        print(f"{many_s:6.2f} s  {many_s / one_s:5.1f} ×  {title}")


def open_runs(count: int) -> None:
    """Memory, size and restart time of so many runs that are open after eight events."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    held = OpenRuns()
    for index in range(count):
        state = begin(f"run-{random_id(index)}", 1)
        for sequence in range(8):
            state = fold(state, bare_event(state.run_id, index, sequence))
        held.put(Entry(state.run_id, 1, index, pack(state), state.content_deadline_us()))
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    began_s = time.perf_counter()
    size_mb = len(held.take_change(1).document) / 2**20
    written_s = time.perf_counter() - began_s
    print(
        f"{count:,} open runs: {grown_mb:.0f} MB ({1024 * grown_mb / count:.2f} KB each), "
        f"as a document {size_mb:.0f} MB, written in {written_s:.1f} s\n"
    )


def bare_event(run_id: str, index: int, sequence: int) -> Event:
    kind, name, call_id, body = step(sequence, Random(index))
    return Event(
        offset=index * 8 + sequence,
        run_id=run_id,
        attempt=1,
        sequence=sequence,
        event_id=f"event-{index}-{sequence}",
        kind=kind,
        name=name,
        call_id=call_id,
        idempotency_key=None,
        parent_run_id=None,
        retry_of=None,
        occurred_us=index,
        deadline_us=index,
        body=json.dumps(body),
        rules=(),
        changes=0,
        life=Life("default", 1, 1),
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds, the better of two runs."""
    times_s = []
    for _ in range(2):
        began_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began_s)
    return min(times_s)


if __name__ == "__main__":
    main()
