"""Row 7: requests to models and their answers, summed for each model that was asked for."""

from typing import Any, Final

from pipeline.records.body import Body, whole_number
from pipeline.records.capture import text_digest
from pipeline.records.events import Event
from pipeline.records.state import ITEMS_MAX, Item, RunState

REQUEST_IDS_MAX: Final = 16
RETURNED_MAX: Final = 16

_INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens")
_OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens")


def add_model_event(state: RunState, event: Event) -> None:
    """Adds a request or an answer to the item of its model."""
    body = Body(event.body)
    requested = body.text("requested_model") or event.name
    item = _item_for(state, event, requested)
    if item is None:
        state.left_out["models"] = state.left_out.get("models", 0) + 1
        return
    assert item.content is not None
    if event.kind == "model.requested":
        _add_request(item, item.content, event, body)
    else:
        _add_response(item.content, body)
    item.content["provider"] = item.content.get("provider") or body.text("provider")
    item.deadline_us = min(item.deadline_us, event.deadline_us)
    item.redactions += event.changes
    item.is_whole &= body.is_whole


def _item_for(state: RunState, event: Event, requested: str | None) -> Item | None:
    """The model's item; events of another lifetime have one of their own."""
    items = state.items.setdefault("models", [])
    key = f"{event.life.lifetime_us}/{requested or ''}"
    for item in items:
        if item.key == key and item.content is not None:
            return item
    if len(items) >= ITEMS_MAX:
        return None
    content: dict[str, Any] = {"requested_model": requested, "requests": 0, "responses": 0}
    content |= {"returned_models": [], "request_ids": []}
    item = Item(
        sequence=event.sequence,
        offset=event.offset,
        event_id=event.event_id,
        digest=text_digest(event.body or ""),
        deadline_us=event.deadline_us,
        lifetime_us=event.life.lifetime_us,
        redactions=0,
        content=content,
        key=key,
    )
    items.append(item)
    return item


def _add_request(item: Item, content: dict[str, Any], event: Event, body: Body) -> None:
    content["requests"] += 1
    is_first = content["requests"] == 1
    if is_first or (event.sequence, event.event_id) < (item.sequence, item.event_id):
        item.sequence, item.offset, item.event_id = event.sequence, event.offset, event.event_id
        item.digest = text_digest(event.body or "")
        item.role = event.kind
        content["api_version"] = body.text("api_version")
        content["settings"] = body.json("settings")


def _add_response(content: dict[str, Any], body: Body) -> None:
    content["responses"] += 1
    # Importers keep a provider's own message as it was.
    returned = body.text("returned_model") or body.text_within("message", "model")
    _add_to_set(content["returned_models"], returned, RETURNED_MAX)
    request_id = body.text("request_id") or body.text("requestId")
    _add_to_set(content["request_ids"], request_id, REQUEST_IDS_MAX)
    usage = body.within("usage") or body.within("message").get("usage")
    if isinstance(usage, dict):
        _add_tokens(content, "input_tokens", usage, _INPUT_TOKENS)
        _add_tokens(content, "output_tokens", usage, _OUTPUT_TOKENS)


def _add_to_set(known: list[str], value: Any, most: int) -> None:
    if isinstance(value, str) and value and value not in known and len(known) < most:
        known.append(value)


def _add_tokens(
    content: dict[str, Any], name: str, usage: dict[str, Any], spellings: tuple[str, ...]
) -> None:
    found = (whole_number(usage.get(spelling)) for spelling in spellings)
    tokens = next((number for number in found if number is not None), None)
    if tokens is not None:
        total = (content.get(name) or 0) + tokens
        content[name] = total if total < 2**63 else None
