"""A run as one HTML file: no script, nothing loaded from anywhere, everything stored escaped.

`page.html` says how it looks.  Keyboard and screen readers find landmarks, headings in order, lists
and tables with captions; steps open with the keyboard alone; masks are `<mark>` with the rule in
words; no state is told by its colour alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup

from pipeline.records.completeness import EXPIRED, MUTABLE, PRESENT, STANDS
from pipeline.records.marking import Piece, body_pieces, rules_outside
from pipeline.records.reading import Row, RunView
from pipeline.records.show import expired_rows, removal_sentences
from pipeline.records.timeline import Step, timeline

_SHARED: Final = ((__package__, "base.css"),)
_DECISIVE: Final = ("decision.made", "effect.intended", "effect.completed", "intervention")


@dataclass(frozen=True, slots=True)
class _Shown:
    """An event as the page shows it; `share` is its part of the longest step, in percent."""

    step: Step
    pieces: tuple[Piece, ...]
    group: str
    share: int
    outside: tuple[str, ...]
    occurred: str


@dataclass(frozen=True, slots=True)
class _Hole:
    """Steps that are not there, and why as far as the record knows."""

    first: int
    last: int
    why: str


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A record with the states of its rows; `facts` are names with what there is to say."""

    record: Row
    states: tuple[tuple[str, str, str], ...]
    stands: int
    facts: tuple[tuple[str, str], ...]


def page(view: RunView, now_us: int) -> str:
    """The page of a run."""
    events = tuple(_shown(view))
    return template(__package__, "page.html").render(
        run_id=view.run_id,
        attempts=[_attempt(record, now_us) for record in view.records],
        tasks=[each for each in events if each.step.kind == "task.captured"],
        decisive=[each for each in events if each.step.kind in _DECISIVE],
        gone=list(_gone(view, now_us)),
        timeline=list(_with_holes(events, view)),
        written=_time(now_us),
    )


@cache
def template(package: str, name: str) -> jinja2.Template:
    """A page that lies in a package; it escapes whatever it is given, and may include `base.css`,
    which says how all pages look."""
    places = (*_SHARED, (package, name))
    pages = {place: (files(at) / place).read_text("utf-8") for at, place in places}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(pages),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    return environment.get_template(name)


def _printable(value: Any) -> Any:
    """Text without what no page may hold: half surrogate pairs, NUL."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value  # what a macro made is clean already
    return value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _shown(view: RunView) -> Iterator[_Shown]:
    steps = timeline(view)
    longest = max((step.took_ms or 0 for step in steps), default=0)
    for step, event in zip(steps, view.events, strict=True):
        yield _Shown(
            step,
            tuple(body_pieces(event)),
            step.kind.partition(".")[0],
            round(100 * (step.took_ms or 0) / longest) if longest else 0,
            tuple(rules_outside(event)),
            _time(event["occurred_at"]),
        )


def _attempt(record: Row, now_us: int) -> _Attempt:
    expired = expired_rows(record, now_us)
    states = [
        (each["row"], EXPIRED if each["row"] in expired else each["state"])
        for each in record["completeness"]
    ]
    signed = tuple((row, state, _sign(state)) for row, state in states)
    return _Attempt(record, signed, sum(s in STANDS for _, s in states), tuple(_facts(record)))


def _sign(state: str) -> str:
    """How a state looks: `ok`, `open` or `gap`."""
    if state in STANDS:
        return "ok" if state == PRESENT else "open"
    return "soft" if state == MUTABLE else "gap"


def _facts(record: Row) -> Iterator[tuple[str, str]]:
    identity, effects = record["identity"], record["effects"]
    yield "Began", _time(identity["started_at"])
    yield "Ended", _time(identity["ended_at"])
    for name, key in (("Retry of", "retry_of"), ("Child of", "parent_run_id")):
        if identity[key]:
            yield name, identity[key]
    lost = f", {record['holes']} never arrived" if record["holes"] else ""
    twice = f", {record['doubled']} arrived twice" if record["doubled"] else ""
    yield "Events", f"{record['events']}{lost}{twice}"
    for model in record["models"]:
        answered = ", ".join(model.get("returned_models") or ()) or "not told"
        tokens = f"{model.get('input_tokens') or 0} → {model.get('output_tokens') or 0} tokens"
        yield f"Model {model.get('requested_model') or ''}", f"answered by {answered}; {tokens}"
    if any(effects.values()):
        yield "Effects", ", ".join(f"{effects[name]} {name}" for name in effects)
    masks = [f"{each['count']} by {each['rule']}" for each in record["redactions"]]
    yield "Masks", ", ".join(masks) or "none"
    yield "This record goes", _time(record["deadline"])


def _gone(view: RunView, now_us: int) -> Iterator[str]:
    """What went of the run; and tasks, decisions and effects that a record knows of, and whose
    events are not there."""
    for sentence in removal_sentences(view):
        yield f"{sentence[0].upper()}{sentence[1:]}."
    known = {event["event_id"] for event in view.events}
    for record in view.records:
        authority = record["authority"]
        parts = [("task snapshot", record["task"])]
        parts += [("decision", each) for each in authority["decisions"]]
        parts += [("effect", each) for each in authority["effects"]]
        for name, part in parts:
            evidence = part["evidence"] if part else None
            if evidence and evidence["event_id"] not in known:
                is_over = evidence["deadline"].timestamp() * 1e6 <= now_us
                why = "has expired" if is_over else "was removed"
                yield f"A {name} stood in event {evidence['event_id']}, which {why}."


def _with_holes(events: tuple[_Shown, ...], view: RunView) -> Iterator[_Shown | _Hole]:
    """The steps, and in their places those that are missing."""
    lost = {
        (record["attempt"], hole["first"])
        for record in view.records
        for hole in record["steps"]["holes"]
    }
    ended = {record["attempt"] for record in view.records}
    attempt, expected = None, 0
    for each in events:
        step = each.step
        expected = expected if step.attempt == attempt else 0
        if step.sequence > expected:
            is_lost = step.attempt not in ended or (step.attempt, expected) in lost
            why = "never arrived" if is_lost else "expired or were removed"
            yield _Hole(expected, step.sequence - 1, why)
        yield each
        attempt, expected = step.attempt, step.sequence + 1


def _time(value: datetime | int) -> str:
    time = datetime.fromtimestamp(value / 1e6, UTC) if isinstance(value, int) else value
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
