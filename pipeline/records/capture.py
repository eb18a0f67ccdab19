"""What an event of each kind says for the record: content by column, null where nothing is said.

A field that the body does not have is left out of the content, so that "declared as none" (null)
can be told from "not said".
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from pipeline.records.body import Body
from pipeline.records.events import Event
from pipeline.records.state import Item

Content = dict[str, Any]
_Take = Callable[[Body, str], Any]

_TEXT: Final[_Take] = Body.text
_JSON: Final[_Take] = Body.json
_TEXTS: Final[_Take] = Body.texts
_COUNT: Final[_Take] = Body.count
_REFERENCE: Final[_Take] = Body.reference
_REFERENCES: Final[_Take] = Body.references

ROW_OF: Final[Mapping[str, str]] = {
    "run.started": "trigger",
    "task.captured": "task",
    "workspace.captured": "code",
    "policy.captured": "policy",
    "environment.captured": "environment",
    "integration.captured": "integrations",
    "artifact.produced": "outputs",
    "decision.made": "decisions",
    "input.declared": "inputs",
    "effect.intended": "effects",
    "effect.completed": "effects",
    "model.requested": "models",
    "model.responded": "models",
}
"""Which part of the record an event of a kind belongs to."""

COMPLETION: Final = "effect.completed"

ONCE: Final = frozenset({"trigger", "task", "code", "policy", "environment"})
"""Parts of which the earliest event counts: what the run began with."""

_FIELDS: Final[Mapping[str, Mapping[str, _Take]]] = {
    "trigger": {"trigger": _JSON, "parent": _TEXT},
    "code": {"repository": _TEXT, "commit": _TEXT},
    "policy": {
        "factory_revision": _TEXT,
        "prompts": _REFERENCES,
        "skills": _REFERENCES,
        "harness": _REFERENCE,
        "tools": _REFERENCES,
    },
    "environment": {
        "image": _REFERENCE,
        "toolchain": _JSON,
        "dependencies": _REFERENCE,
        "setup": _JSON,
        "cache": _TEXT,
        "resources": _JSON,
    },
    "integrations": {
        "endpoint": _TEXT,
        "contract": _REFERENCE,
        "adapter": _REFERENCE,
        "fixtures": _REFERENCE,
        "matching_policy": _TEXT,
    },
    "outputs": {"purpose": _TEXT, "digest": _TEXT, "uri": _TEXT, "size_bytes": _COUNT},
    "decisions": {
        "decision": _TEXT,
        "actor": _TEXT,
        "approval": _TEXT,
        "reason": _TEXT,
        "artifacts": _TEXTS,
    },
    "inputs": {
        "input": _TEXT,
        "state": _TEXT,
        "access_owner": _TEXT,
        "replay_restriction": _TEXT,
    },
    "effects": {
        "actor": _TEXT,
        "approval": _TEXT,
        "capability": _TEXT,
        "status": _TEXT,
    },
}
"""The fields of a body that the record embeds, under their own names."""


def capture(event: Event) -> Item:
    """The item that an event adds to its part of the record."""
    body = Body(event.body)
    row = ROW_OF[event.kind]
    taken = {
        name: take(body, name) for name, take in _FIELDS.get(row, {}).items() if body.has(name)
    }
    content = _MORE.get(row, _nothing_more)(event, body) | taken
    return Item(
        sequence=event.sequence,
        offset=event.offset,
        event_id=event.event_id,
        digest=text_digest(event.body or ""),
        deadline_us=event.deadline_us,
        lifetime_us=event.life.lifetime_us,
        redactions=event.changes,
        content=content if event.life.may_be_copied else None,
        is_whole=body.is_whole,
        key=(body.text("effect_id") or event.call_id or event.event_id) if row == "effects" else "",
        role=event.kind if row == "effects" else "",
    )


def text_digest(text: str) -> str:
    """SHA-256 of a stored text."""
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _nothing_more(event: Event, body: Body) -> Content:
    return {}


def _named(event: Event, body: Body) -> Content:
    return {"name": event.name}


def _task(event: Event, body: Body) -> Content:
    content: Content = {"source": body.text("source"), "captured_at": body.text("captured_at")}
    return content | ({"snapshot": body.json("task")} if body.has("task") else {})


def _code(event: Event, body: Body) -> Content:
    """The patch stays in its event: the record has its digest and length."""
    content: Content = {}
    patch = body.fields.get("patch")
    if isinstance(patch, str):
        content = {"patch_digest": text_digest(patch), "patch_length": len(patch)}
    if isinstance(body.fields.get("clean"), bool):
        content["is_clean"] = body.fields["clean"]
    return content


def _effect(event: Event, body: Body) -> Content:
    effect_id = body.text("effect_id") or event.call_id
    return {
        "name": event.name,
        "idempotency_key": event.idempotency_key,
    } | ({"effect_id": effect_id} if effect_id else {})


def _input(event: Event, body: Body) -> Content:
    return {"input": event.name}


_MORE: Final[Mapping[str, Callable[[Event, Body], Content]]] = {
    "task": _task,
    "code": _code,
    "integrations": _named,
    "outputs": _named,
    "inputs": _input,
    "effects": _effect,
}
