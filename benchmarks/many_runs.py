"""A lake of many runs, made fast: without a broker, without masking, without folding each event.

A hundred events a run, 200 runs that take turns in a slice of 20,000, all in one bucket.  Run ids
say nothing about their neighbours, and the texts do not repeat.  The records of a slice are those
that the fold makes of its first slice, under the ids and offsets of its own.
"""

import json
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from pipeline.records.events import events_of
from pipeline.records.fold import begin, fold
from pipeline.records.record import make_record
from pipeline.retention.policy import load_policy
from pipeline.slices import MaskedSlice, Part, SliceHeader
from schemas.parquet import EVENTS, RUNS

EVENTS_A_RUN: Final = 100
RUNS_TOGETHER: Final = 200
SLICE: Final = EVENTS_A_RUN * RUNS_TOGETHER
TEXT: Final = 600
DIGEST: Final = "ab" * 32
POLICY: Final = load_policy()

Step = tuple[str, str | None, str | None, dict[str, Any]]


def make_lake(store: Store, runs: int, now_us: int) -> None:
    """Commits the events and records of so many runs, a multiple of 200."""
    store_policy(store, POLICY.digest, POLICY.document)
    committer = SliceCommitter(store, new_claim())
    for number in range(runs // RUNS_TOGETHER):
        masked = slice_of(number, now_us)
        (events,) = masked.parts
        records = Part("runs", events.retention_class, events.expires, _records(number, now_us))
        written = committer.write(MaskedSlice(masked.header, (events, records)))
        assert written is not None
        committer.commit(written)


def slice_of(number: int, now_us: int) -> MaskedSlice:
    """Slice `number`: events only."""
    start = number * SLICE
    place = POLICY.place(now_us, None, None, now_us)
    header = SliceHeader(
        "bench", "id", 0, start, start + SLICE, now_us, DIGEST, POLICY.digest, "k1"
    )
    part = Part("events", place.retention_class, place.expires, _events(number, now_us))
    return MaskedSlice(header, (part,))


def run_id(index: int) -> str:
    """A run id that says nothing about its neighbours."""
    return f"run-{Random(index).getrandbits(64):016x}"


def step(sequence: int) -> Step:
    """(kind, name, call id, body) of the event at a place in a run; `~` stands for a text."""
    digest = f"sha256:{'0' * 64}"
    fixed: dict[int, Step] = {
        0: ("run.started", None, None, {"trigger": {"type": "ticket"}, "parent": None}),
        1: ("task.captured", None, None, {"task": {"goal": "~"}, "source": "tickets"}),
        2: ("workspace.captured", None, None, {"repository": "r", "commit": "main"}),
        3: ("policy.captured", None, None, {"factory_revision": "1", "prompts": []}),
        94: ("artifact.produced", "patch", None, {"digest": digest}),
        95: ("decision.made", None, None, {"decision": "merge", "actor": "agent"}),
        96: ("effect.intended", "merge", "e", {"actor": "agent", "capability": "repo"}),
        97: ("effect.completed", "merge", "e", {"status": "ok"}),
        98: ("input.declared", "tickets", None, {"input": "tickets", "state": "mutable"}),
        99: ("run.finished", None, None, {"status": "completed"}),
    }
    if sequence in fixed:
        return fixed[sequence]
    call = f"call-{sequence // 4}"
    usage = {"input_tokens": 100 * sequence, "output_tokens": sequence}
    answer = {"returned_model": "large-1-2026", "usage": usage, "message": "~"}
    return (
        ("model.requested", "large-1", call, {"provider": "acme", "messages": "~"}),
        ("model.responded", "large-1", call, {"provider": "acme", **answer}),
        ("tool.requested", "shell", call, {"arguments": "~"}),
        ("tool.responded", "shell", call, {"content": "~", "status": "ok"}),
    )[sequence % 4]


def _events(number: int, now_us: int) -> pa.Table:
    """The events of a slice: 200 first steps, then 200 second ones, and so on."""
    offsets = np.arange(number * SLICE, (number + 1) * SLICE)
    steps = [step(sequence) for sequence in range(EVENTS_A_RUN)]
    repeated = np.repeat(np.arange(EVENTS_A_RUN), RUNS_TOGETHER)
    ids = [run_id(number * RUNS_TOGETHER + index) for index in range(RUNS_TOGETHER)]
    place = POLICY.place(now_us, None, None, now_us)
    columns: dict[str, Any] = {
        "event_id": pc.binary_join_element_wise("event", pa.array(offsets).cast("string"), "-"),
        "run_id": pa.array(ids).take(pa.array(np.tile(np.arange(RUNS_TOGETHER), EVENTS_A_RUN))),
        "attempt": np.ones(SLICE),
        "sequence": repeated,
        "occurred_at": now_us + offsets * 1000,
        "kind": pa.array([kind for kind, _, _, _ in steps]).take(pa.array(repeated)),
        "name": pa.array([name for _, name, _, _ in steps]).take(pa.array(repeated)),
        "call_id": pa.array([call for _, _, call, _ in steps]).take(pa.array(repeated)),
        "body": _bodies(number, steps, repeated),
        "redactions": pa.array(list(islice(cycle(_REDACTIONS), SLICE)), _type("redactions")),
        "ruleset": _same(DIGEST),
        "key_id": _same("k1"),
        "kafka_topic": _same("bench"),
        "kafka_partition": np.zeros(SLICE),
        "kafka_offset": offsets,
        "ingested_at": np.full(SLICE, now_us),
        "deadline": np.full(SLICE, place.deadline_us),
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(SLICE, field.type)
        for field in EVENTS
    ]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


_REDACTIONS: Final = [[{"path": "/content", "rule": "email"}], *[[] for _ in range(15)]]


def _bodies(number: int, steps: list[Step], repeated: "np.ndarray[Any, Any]") -> "pa.Array[Any]":
    letters = np.frombuffer(b"abcdefgh  ", np.uint8)
    chosen = np.random.default_rng(number).integers(0, len(letters), SLICE * TEXT)
    ends = pa.array(np.arange(0, (SLICE + 1) * TEXT, TEXT, dtype=np.int32))
    texts = pa.StringArray.from_buffers(
        SLICE, ends.buffers()[1], pa.py_buffer(letters[chosen].tobytes())
    )
    halves = [json.dumps(body).partition("~") for _, _, _, body in steps]
    before = pa.array([half[0] for half in halves]).take(pa.array(repeated))
    after = pa.array([half[2] for half in halves]).take(pa.array(repeated))
    has_text = pa.array([half[1] == "~" for half in halves]).take(pa.array(repeated))
    texts = pc.if_else(has_text, texts, "")
    return pc.binary_join_element_wise(before, texts, after, "")


def _records(number: int, now_us: int) -> pa.Table:
    table = _first_records(now_us)
    ids = [run_id(number * RUNS_TOGETHER + index) for index in range(RUNS_TOGETHER)]
    shift = pa.scalar(number * SLICE, pa.int64())
    changed = {
        "run_id": pa.array(ids),
        "first_offset": pc.add(table["first_offset"], shift),
        "last_offset": pc.add(table["last_offset"], shift),
    }
    for name, column in changed.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


@cache
def _first_records(now_us: int) -> pa.Table:
    masked = slice_of(0, now_us)
    states = {run_id(index): begin(run_id(index), 1) for index in range(RUNS_TOGETHER)}
    for event in events_of(masked.parts, POLICY):
        fold(states[event.run_id], event)
    rows = [make_record(state, masked.header).row for state in states.values()]
    return pa.Table.from_pylist(rows, schema=RUNS)


def _type(name: str) -> pa.DataType:
    return EVENTS.field(name).type


def _same(text: str) -> "pa.Array[Any]":
    return pa.repeat(text, SLICE)
