"""A model that is simulated: it reads the conversation, and now and then picks the wrong date.

Deterministic, as a provider's `seed` promises: the same request gives the same answer.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

MODEL: Final = "support-1"
PROVIDER: Final = "example"

PROMPTS: Final[Mapping[str, str]] = {
    "v1": "You answer customers whose parcel is late. Look up the order, ask the carrier, then "
    "write to the customer when the parcel will arrive.",
    "v2": "You answer customers whose parcel is late. Look up the order, ask the carrier, then "
    "write to the customer when the parcel will arrive. The day of arrival is `expected`; "
    "`last_scan` is the day on which the parcel was seen last.",
    "v3": "You answer customers whose parcel is late. Look up the order, ask the carrier, and if "
    "the parcel is held ask the depot for its opening hours, then write to the customer when the "
    "parcel will arrive. The day of arrival is `expected`.",
}


def answer(request: Mapping[str, Any], wrong: Mapping[str, float]) -> dict[str, Any]:
    """The model's answer to a conversation; `wrong` is how often each prompt misreads the date."""
    prompt, *turns = (turn["content"] for turn in request["messages"])
    version = next(name for name, text in PROMPTS.items() if text == prompt)
    said = _next(version, turns, _drawn(request), wrong)
    return {
        "provider": PROVIDER,
        "requested_model": MODEL,
        "returned_model": f"{MODEL}-20260201",
        "message": said,
        "stop_reason": "tool_use" if "tool" in said else "end_turn",
    }


def _next(
    version: str, turns: list[Any], drawn: float, wrong: Mapping[str, float]
) -> dict[str, Any]:
    results = {
        turn["tool"]: turn["result"]
        for turn in turns
        if isinstance(turn, dict) and "result" in turn
    }
    order, status = results.get("get_order"), results.get("carrier_status")
    if order is None:
        return _call("get_order", {"order_id": turns[0]["order_id"]})
    if status is None:
        return _call("carrier_status", {"tracking_id": order["tracking_id"]})
    if version == "v3" and status["state"] == "held" and "depot_hours" not in results:
        return _call("depot_hours", {"depot": status["depot"]})
    if "send_email" in results:
        return {"role": "assistant", "content": "The customer knows when the parcel arrives."}
    day = status["last_scan" if drawn < wrong[version] else "expected"]
    text = f"Your {order['items'][0]['name']} arrives on {day}."
    to = order["customer"]["email"]
    return _call("send_email", {"to": to, "subject": "Your parcel", "text": text})


def _call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "tool": tool, "arguments": arguments}


def _drawn(request: Mapping[str, Any]) -> float:
    text = json.dumps(request, sort_keys=True).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") / 2**64
