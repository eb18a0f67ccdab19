"""A run, a list of runs or a trace as lines of at most 80 columns, or as plain values for JSON."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, Final

from pipeline.lake.rendering import as_cells
from pipeline.records.completeness import COSTS, EXPIRED, is_expired
from pipeline.records.reading import Row, RunView
from pipeline.records.timeline import Step, timeline
from pipeline.records.trace import Hop

WIDTH: Final = 80

_GONE: Final = {
    "events": ("events of this run", COSTS["steps"]),
    "runs": ("records of this run", "how complete it was cannot be told any more"),
    "dead_letters": ("dead letters", "what could not be read is not known any more"),
}
"""By table: what went, and what cannot be told without it."""


def run_lines(view: RunView, now_us: int) -> Iterator[str]:
    """A record for each attempt, then the timeline, then what was read for it."""
    for record in view.records:
        yield from _record_lines(record, now_us)
    for sentence in removal_sentences(view):
        yield from _wrapped(f"  ! {sentence}")
    if sealed := sum(event["body"] is None for event in view.events):
        yield from _wrapped(f"  ! the content of {sealed} events is sealed, the keys are not here")
    yield ""
    yield _columns(("step", 5), ("after", 9), ("kind", 21), ("name", 17), ("took", 9), ("notes", 0))
    attempt = None
    for step in timeline(view):
        if attempt not in (None, step.attempt):
            yield f"      — attempt {step.attempt}"
        attempt = step.attempt
        yield _step_line(step)
    share = 100 * view.bytes_read / max(view.bytes_total, 1)
    yield ""
    yield f"read {view.bytes_read:,} of {view.bytes_total:,} bytes ({share:.2g} %)"


def run_as_dict(view: RunView, now_us: int) -> dict[str, Any]:
    """The run with its latest records, its events and what was read."""
    records = [{**record, "expired_rows": expired_rows(record, now_us)} for record in view.records]
    return {
        "run_id": view.run_id,
        "records": records,
        "events": list(view.events),
        "removals": [
            {"table": each.table, "retention_class": each.retention_class, "why": each.why}
            | {"when": datetime.fromtimestamp(each.when_us / 1e6, UTC)}
            for each in view.removals
        ],
        "bytes_read": view.bytes_read,
        "bytes_total": view.bytes_total,
    }


def removal_sentences(view: RunView) -> Iterator[str]:
    """What went of the run, when and why, and what that costs."""
    for each in view.removals:
        when = f"{datetime.fromtimestamp(each.when_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
        how = "were erased" if each.why == "erase" else "expired"
        what, cost = _GONE[each.table]
        yield f"{what} of class {each.retention_class} {how} ({when}): {cost}"


def list_lines(runs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each attempt."""
    yield _columns(("run", 37), ("try", 4), ("end", 10), ("events", 7), ("masks", 6), ("lacks", 0))
    for run in runs:
        lacks = [f"{run['missing']} things"] if not run["complete"] else []
        lacks += [f"{run['holes']} events"] if run["holes"] else []
        lacks += [f"{run['unknown_effects']} unknown effects"] if run["unknown_effects"] else []
        yield _columns(
            (run["run_id"], 37),
            (run["attempt"], 4),
            (run["status"], 10),
            (run["events"], 7),
            (run["masks"], 6),
            (", ".join(lacks) or "—", 0),
        )


def trace_lines(hops: Iterable[Hop]) -> Iterator[str]:
    """Each hop with its evidence, the last one with what its absence costs."""
    for hop in hops:
        yield _clean(f"{'✓' if hop.holds else '✗'} {hop.what}: {hop.detail}")
        if hop.event_id:
            yield _clean(f"    event {hop.event_id} at offset {hop.offset}")
            yield _clean(f"    in {hop.file}")
        if hop.cost:
            yield _clean(f"    so {hop.cost}")


def expired_rows(record: Row, now_us: int) -> list[str]:
    """The rows of a record that refer to events that are gone by now."""
    return [
        each["row"]
        for each in record["completeness"]
        if each["state"] != EXPIRED and is_expired(_in_micros(record[each["row"]]), now_us)
    ]


def _record_lines(record: Row, now_us: int) -> Iterator[str]:
    whole = "complete" if record["complete"] else "incomplete"
    yield _clean(
        f"run {record['run_id']}, attempt {record['attempt']}: {record['status']}, {whole}"
    )
    parts = [
        f"{record['events']} events",
        f"{record['holes']} lost",
        f"version {record['version']}",
    ]
    yield f"  {', '.join(parts)}"
    expired = expired_rows(record, now_us)
    for each in record["completeness"]:
        state = EXPIRED if each["row"] in expired else each["state"]
        mark = "✓" if state in ("present", "redacted", "not applicable") else "✗"
        yield f"  {mark} {each['row']:<13} {state}"
    for gap in record["missing"]:
        yield from _wrapped(f"  ! {gap['field']}: {gap['reason']}")
        yield from _wrapped(f"      so {gap['cost']}")


def _step_line(step: Step) -> str:
    notes = [step.state] if step.state else []
    notes += [f"{step.tokens[0]}→{step.tokens[1]}t"] if step.tokens else []
    notes += [f"▒{step.masks}"] if step.masks else []
    took = f"{step.took_ms} ms" if step.took_ms is not None else ""
    return _columns(
        (step.sequence, 5),
        (f"{step.after_s:.3f}s", 9),
        (step.kind, 21),
        (step.name, 17),
        (took, 9),
        (" ".join(notes), 0),
    )


def _columns(*cells: tuple[Any, int]) -> str:
    """Cells cut or padded to their widths; the last one may be as long as the line."""
    line = ""
    for value, width in cells:
        text = _clean(str(value))
        if width:
            text = f"{text[: width - 2]}…" if len(text) >= width else text
            text = text.ljust(width)
        line += text
    return line[:WIDTH].rstrip()


def _wrapped(text: str) -> list[str]:
    return wrap(_clean(text), WIDTH, subsequent_indent="      ", break_on_hyphens=False)


def _clean(text: str) -> str:
    """On one line, with control characters shown and not sent."""
    return as_cells((text,))[0].replace("\n", " ")


def _in_micros(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.astimezone(UTC).timestamp() * 1_000_000)
    if isinstance(value, dict):
        return {name: _in_micros(item) for name, item in value.items()}
    return [_in_micros(item) for item in value] if isinstance(value, list) else value
