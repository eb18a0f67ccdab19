"""What run records cost and give: the fold, `runs show`, the ten questions, a million open runs.

    python benchmarks/bench_records.py [--runs 2000] [--open-runs 50000] [--folder FOLDER]

The full size is 50,000 runs, which are 5,000,000 events, and 1,000,000 open runs.  The lake is made
by `many_runs.py`, 20,000 events a slice, and kept if a folder is given (one that is there already
is used as it is).  `runs show` counts from opening the lake, the start of Python excepted.  Each
question is also put to the same rows in one sorted file a table: the ratio to that is what many
files cost.
"""

import argparse
import json
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from many_runs import EVENTS_A_RUN, POLICY, RUNS_TOGETHER, SLICE, make_lake, run_id, slice_of, step

from pipeline.assemble import Assembler
from pipeline.lake.documents import store_policy
from pipeline.lake.layout import new_claim
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.query import query
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter, crowded_buckets
from pipeline.lake.views import VIEWS
from pipeline.records.events import Event, Life
from pipeline.records.fold import begin, fold
from pipeline.records.reading import read_run
from pipeline.records.state import RunState, pack
from pipeline.state.document import Entry
from pipeline.state.open_runs import OpenRuns

CORES = 2
ROW_GROUP_ROWS = 8_192
SHOWN = 20
OPEN_AFTER = 8
STATES = 1_000

QUESTIONS = re.findall(
    r"## (.+?)\n.*?```sql\n(.+?)```",
    (Path(__file__).parents[1] / "docs" / "questions.md").read_text(),
    re.DOTALL,
)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000, help=f"a multiple of {RUNS_TOGETHER}")
    parser.add_argument("--open-runs", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, help="where to make it, or where it was made")
    options = parser.parse_args()
    now_us = time.time_ns() // 1000
    open_runs(options.open_runs)  # first: its memory is told by the peak of the process
    assembling(now_us)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        store = Store.open(folder / "lake", create=not (folder / "lake").exists())
        if not read_lake(store).files["runs"]:
            make_lake(store, options.runs, now_us)
        runs = sum(file.rows for file in read_lake(store).files["runs"])
        print(f"{runs * EVENTS_A_RUN:,} events, {runs:,} runs")
        single = one_file_a_table(read_lake(store), folder)
        measure(store, "before compaction", runs, single)
        compact(store)
        measure(store, "after compaction", runs, single)


def measure(store: Store, when: str, runs: int, single: duckdb.DuckDBPyConnection) -> None:
    """Everything that is asked of a lake."""
    files = {table: len(read_lake(store).files[table]) for table in ("events", "runs")}
    print(f"\n{when}: {files['events']} files of events, {files['runs']} of records")
    show(store, runs)
    ask(read_lake(store), single)


def show(store: Store, runs: int) -> None:
    """`runs show` of runs here and there: time and share of the bytes."""
    read_run(read_lake(store), run_id(0))  # what is imported then is part of the start of Python
    times_s, shares = [], []
    for index in range(0, runs, max(1, runs // SHOWN)):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        view = read_run(read_lake(store), run_id(index))
        times_s.append((time.perf_counter() - began_s, time.process_time() - began_cpu_s))
        assert len(view.events) == EVENTS_A_RUN and len(view.records) == 1
        shares.append(100 * view.bytes_read / view.bytes_total)
    for what, taken in zip(("time", "CPU"), zip(*times_s, strict=True), strict=True):
        middle, most = 1000 * sorted(taken)[len(taken) // 2], 1000 * max(taken)
        print(f"runs show: {what} {middle:.0f} ms in the middle, {most:.0f} ms at most")
    print(f"runs show: at most {max(shares):.2f} % of {view.bytes_total:,} bytes")


def compact(store: Store) -> None:
    """Merges what is small; prints what that took."""
    began_s, small = time.perf_counter(), crowded_buckets(read_lake(store), 2)
    for bucket in small:
        Rewriter(store, new_claim(), time.time_ns() // 1000).compact(bucket)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\ncompacted in {time.perf_counter() - began_s:.0f} s, peak memory {peak_mb:,.0f} MB")


def one_file_a_table(lake: Lake, folder: Path) -> duckdb.DuckDBPyConnection:
    """The same rows, each table in one sorted file, under the same views."""
    session = duckdb.connect(config={"threads": CORES, "temp_directory": str(folder / "spilled")})
    tables = (("events", "events", "run_id, sequence"), ("runs", "run_versions", "run_id"))
    for table, name, order in tables:
        path = folder / f"{table}.parquet"
        if not path.exists():
            session.execute(
                f"COPY (FROM read_parquet('{lake.store.location}/{table}/**/*.parquet', "
                f"hive_types_autocast = false) ORDER BY {order}) TO '{path}' "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
            )
        session.execute(f"CREATE VIEW {name} AS FROM '{path}'")
    for view in VIEWS:
        session.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    return session


def ask(lake: Lake, single: duckdb.DuckDBPyConnection) -> None:
    """Every question: seconds, of them all cores' CPU, and the ratio to one sorted file."""
    for title, sql in QUESTIONS:
        many_s, cpu_s = timed(lambda: list(query(lake, sql).rows))  # noqa: B023
        one_s, _ = timed(lambda: single.sql(sql).fetchall())  # noqa: B023
        print(f"{many_s:6.2f} s  {cpu_s:6.2f} s CPU  {many_s / one_s:5.1f} ×  {title}")


def assembling(now_us: int) -> None:
    """What the fold costs by event, in the form in which an ingest does it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "lake", create=True)
        store_policy(store, POLICY.digest, POLICY.document)
        masked = slice_of(0, now_us)
        began_s = time.process_time()
        assert Assembler(store, 24 * 3_600_000_000).assemble(masked) is not None
        took_s = time.process_time() - began_s
    print(f"assembling: {1e6 * took_s / SLICE:.1f} µs of CPU an event")


def open_runs(count: int) -> None:
    """Memory of so many runs that are open after eight events.

    A thousand of them are folded, the others are copies of these under ids of their own.
    """
    packed = [pack(folded(index)) for index in range(STATES)]
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    held = OpenRuns()
    for index in range(count):
        payload = bytes(bytearray(packed[index % STATES]))  # memory of its own
        held.put(Entry(run_id(index), 1, index, payload, index))
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    began_s = time.perf_counter()
    assert held.take_change(1).document
    written_s = time.perf_counter() - began_s
    print(
        f"{count:,} open runs: {grown_mb:,.0f} MB ({1024 * grown_mb / count:.2f} KB each); "
        f"their state is made in {written_s:.1f} s"
    )


def folded(index: int) -> RunState:
    """A run after its first events."""
    state = begin(run_id(index), 1)
    for sequence in range(OPEN_AFTER):
        state = fold(state, bare_event(state.run_id, index, sequence))
    return state


def bare_event(name_of_run: str, index: int, sequence: int) -> Event:
    """An event as the fold sees it."""
    kind, name, call_id, body = step(sequence)
    return Event(
        offset=index * OPEN_AFTER + sequence,
        run_id=name_of_run,
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
        body=json.dumps(body).replace("~", "x" * 300),
        rules=(),
        changes=0,
        life=Life("default", 1, 1),
    )


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of CPU, those of the better of two runs."""
    times_s = []
    for _ in range(2):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        work()
        times_s.append((time.perf_counter() - began_s, time.process_time() - began_cpu_s))
    return min(times_s)


if __name__ == "__main__":
    main()
