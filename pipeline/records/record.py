"""From what is known of an attempt to its record: one row of `runs`.

Content of events that go before the record does not stand in it: the event is referred to, with
the digest of what it said.  The record goes with the first event whose content it holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pipeline.records.completeness import assess
from pipeline.records.fold import ABANDONED
from pipeline.records.state import Item, RunState
from pipeline.retention.policy import bucket_name
from pipeline.slices import SliceHeader

HOLES_MAX: Final = 64

_COUNTS: Final = {
    "messages": "message",
    "model_requests": "model.requested",
    "model_responses": "model.responded",
    "tool_requests": "tool.requested",
    "tool_responses": "tool.responded",
    "errors": "error",
    "interventions": "intervention",
    "others": "other",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A row of `runs`, by column name, and where it is kept (`expires` names the bucket)."""

    retention_class: str
    expires: str
    row: dict[str, Any]


def make_record(state: RunState, header: SliceHeader) -> Record:
    """The record of an attempt that has ended, as the slice `header` leaves it."""
    _, _, retention_class, lifetime_us, bucket_us, deadline_us = state.place
    writer = _Writer(lifetime_us)
    parts = writer.parts(state)
    deadline_us = min([deadline_us, *writer.deadlines_us])
    assessed = assess(state, parts, header.now_us)
    row = {
        "run_id": state.run_id,
        "attempt": state.attempt,
        "version": 1 + state.late,
        "status": state.status or ABANDONED,
        **parts,
        **assessed.columns,
        "events": state.events,
        "doubled": state.doubled,
        "holes": sum(last - first + 1 for first, last in state.seen.holes()),
        "redactions": [
            {"rule": rule, "count": count} for rule, count in sorted(state.redactions.items())
        ],
        "effects": _effects_by_state(parts["authority"]["effects"]),
        "kafka_topic": header.topic,
        "kafka_partition": header.partition,
        "first_offset": state.first_offset,
        "last_offset": state.last_offset,
        "ruleset": header.ruleset,
        "key_id": header.key_id,
        "ingested_at": header.now_us,
        "deadline": deadline_us,
    }
    return Record(retention_class, bucket_name(deadline_us - deadline_us % bucket_us), row)


class _Writer:
    """Turns items into the record's columns; notes the deadlines of what it embeds."""

    def __init__(self, lifetime_us: int) -> None:
        self._lifetime_us = lifetime_us
        self.deadlines_us: list[int] = []

    def parts(self, state: RunState) -> dict[str, Any]:
        """The eleven rows."""
        once = {name: self._once(state, name) for name in ("code", "policy", "environment")}
        many = {name: self._many(state, name) for name in ("integrations", "models", "outputs")}
        return {
            "identity": self._identity(state),
            **once,
            **many,
            "task": self._task(state),
            "steps": _steps(state),
            "authority": {
                "decisions": self._many(state, "decisions"),
                "effects": [self._effect(item) for item in _in_order(state, "effects")],
            },
            "handling": self._handling(state),
        }

    def _item(self, item: Item) -> dict[str, Any]:
        is_kept = item.content is not None and item.lifetime_us >= self._lifetime_us
        if is_kept:
            self.deadlines_us.append(item.deadline_us)
        content = item.content if is_kept and item.content else {}
        return {**content, "evidence": _evidence(item, is_kept=is_kept)}

    def _once(self, state: RunState, name: str) -> dict[str, Any] | None:
        items = state.items.get(name)
        return self._item(items[0]) if items else None

    def _many(self, state: RunState, name: str) -> list[dict[str, Any]]:
        return [self._item(item) for item in _in_order(state, name)]

    def _identity(self, state: RunState) -> dict[str, Any]:
        started = state.items.get("trigger")
        spans = state.seen.spans
        return {
            "parent_run_id": state.parent_run_id,
            "retry_of": state.retry_of,
            "first_sequence": spans[0][0] if spans else None,
            "last_sequence": spans[-1][1] if spans else None,
            "started_at": state.started_us,
            "ended_at": state.ended_us,
            "evidence": _evidence(started[0], is_kept=True) if started else None,
        }

    def _task(self, state: RunState) -> dict[str, Any] | None:
        trigger, task = self._once(state, "trigger"), self._once(state, "task")
        if trigger is None and task is None:
            return None
        trigger, task = trigger or {}, task or {}
        return task | {
            "trigger": trigger.get("trigger"),
            "trigger_evidence": trigger.get("evidence"),
        }

    def _effect(self, item: Item) -> dict[str, Any]:
        """An effect with what is known of its completion; a lone completion has no intention."""
        done = item.completed if item.role == "effect.intended" else item
        effect = self._item(item)
        if done is None:
            return effect | {"state": "unknown", "completed_evidence": None}
        completed = self._item(done)
        return effect | {
            "state": "completed",
            "status": completed.get("status"),
            "completed_evidence": completed["evidence"],
            "evidence": effect["evidence"] if done is not item else None,
        }

    def _handling(self, state: RunState) -> dict[str, Any]:
        inputs = self._many(state, "inputs")
        return {
            "inputs": inputs,
            "access_owners": _different(given.get("access_owner") for given in inputs),
            "replay_restrictions": _different(given.get("replay_restriction") for given in inputs),
        }


def _in_order(state: RunState, name: str) -> list[Item]:
    return sorted(state.items.get(name, ()), key=lambda item: (item.sequence, item.event_id))


def _evidence(item: Item, *, is_kept: bool) -> dict[str, Any]:
    return {
        "event_id": item.event_id,
        "kafka_offset": item.offset,
        "digest": item.digest,
        "deadline": item.deadline_us,
        "redactions": item.redactions,
        "is_embedded": is_kept and item.is_whole,
    }


def _steps(state: RunState) -> dict[str, Any]:
    counts = {name: state.kinds.get(kind, 0) for name, kind in _COUNTS.items()}
    holes = [{"first": first, "last": last} for first, last in state.seen.holes()[:HOLES_MAX]]
    return {**counts, "holes": holes, "first_deadline": state.earliest_deadline_us}


def _effects_by_state(effects: list[dict[str, Any]]) -> dict[str, int]:
    completed = sum(effect["state"] == "completed" for effect in effects)
    return {
        "intended": sum(effect["evidence"] is not None for effect in effects),
        "completed": completed,
        "unknown": len(effects) - completed,
    }


def _different(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))
