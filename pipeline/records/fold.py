"""The fold: what is known of an attempt, and one more event, give what is known now.

Pure: the same events give the same state, whichever slices they came in.  An event that its
producer repeated counts once, and the order of arrival decides nothing that a record says about
the order of steps: that is the events' own sequence.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pipeline.records.body import Body
from pipeline.records.capture import COMPLETION, ONCE, ROW_OF, capture
from pipeline.records.events import Event
from pipeline.records.models import add_model_event
from pipeline.records.state import ITEMS_MAX, Item, RunState

ABANDONED: Final = "abandoned"
FINISHED: Final = "finished"
STATUSES: Final = ("completed", "failed", "cancelled")


def begin(run_id: str, attempt: int) -> RunState:
    """An attempt of which nothing is known yet."""
    return RunState(run_id, attempt)


def fold(state: RunState, event: Event) -> RunState:
    """The state after `event`; takes `state` over, which must not be used any more."""
    state.late += state.status is not None
    if state.status == ABANDONED:
        state.status = None  # it goes on after all
    is_number = event.record_index is None
    if not state.seen.add(event.sequence, event.event_id, is_number=is_number):
        state.doubled += 1
        return state
    state.unnumbered += not is_number
    _count(state, event)
    if event.kind == "run.finished":
        _finish(state, event)
    elif event.kind in ROW_OF:
        row = ROW_OF[event.kind]
        is_summed = row == "models" and event.life.may_be_copied
        (add_model_event if is_summed else _ADD.get(row, _add_item))(state, event)
    return state


def abandon(state: RunState) -> RunState:
    """The state once the time-out of a run that has not finished is over."""
    state.status = ABANDONED
    return state


def _count(state: RunState, event: Event) -> None:
    if not state.events:
        state.first_offset = event.offset
        state.started_us = state.ended_us = event.occurred_us
        state.earliest_deadline_us = event.deadline_us
    state.events += 1
    state.last_offset = event.offset
    state.started_us = min(state.started_us, event.occurred_us)
    state.ended_us = max(state.ended_us, event.occurred_us)
    state.earliest_deadline_us = min(state.earliest_deadline_us, event.deadline_us)
    state.kinds[event.kind] = state.kinds.get(event.kind, 0) + 1
    state.parent_run_id = state.parent_run_id or event.parent_run_id
    state.retry_of = state.retry_of or event.retry_of
    for rule in event.rules:
        state.redactions[rule] = state.redactions.get(rule, 0) + 1
    # The record goes with the run's start, or with the earliest event that there is.
    place = [event.kind != "run.started", event.sequence, *event.life[:3], event.deadline_us]
    if not state.place or place[:2] < state.place[:2]:
        state.place = place


def _finish(state: RunState, event: Event) -> None:
    status = Body(event.body).text("status")
    state.status = status if status in STATUSES else FINISHED


def _add_item(state: RunState, event: Event) -> None:
    _append(state, ROW_OF[event.kind], capture(event))


def _add_once(state: RunState, event: Event) -> None:
    row, item = ROW_OF[event.kind], capture(event)
    known = state.items.get(row)
    if not known or (item.sequence, item.event_id) < (known[0].sequence, known[0].event_id):
        state.items[row] = [item]


def _add_effect(state: RunState, event: Event) -> None:
    """Joins intention and completion, whichever comes first."""
    item = capture(event)
    effects = state.items.get("effects", [])
    for at, known in enumerate(effects):
        if known.key != item.key or known.completed is not None or known.role == item.role:
            continue
        if item.role == COMPLETION:
            known.completed = item
        else:
            item.completed, effects[at] = known, item
        return
    _append(state, "effects", item)


def _append(state: RunState, row: str, item: Item) -> None:
    items = state.items.setdefault(row, [])
    if len(items) < ITEMS_MAX:
        items.append(item)
    else:
        state.left_out[row] = state.left_out.get(row, 0) + 1


_ADD: Final[Mapping[str, Callable[[RunState, Event], None]]] = {
    **dict.fromkeys(ONCE, _add_once),
    "effects": _add_effect,
}
