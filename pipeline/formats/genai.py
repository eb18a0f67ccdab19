"""What the attributes of a span say about a call of a model or a tool, as bodies of run events.

Understood are the semantic conventions of OpenTelemetry for generative AI, as they are now and as
they were, and OpenInference.  What goes into a body leaves the attributes; all else stays in them.

Source: OpenTelemetry semantic conventions, "Generative AI" (spans, events); OpenInference
specification, "Semantic conventions".
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pipeline.formats.base import faithful_json

Attributes = dict[str, Any]

DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The event that has the content of a call where the span does not."""

_MODEL_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_KINDS: Final[Mapping[str, Literal["model", "tool"]]] = {
    "LLM": "model",
    "EMBEDDING": "model",
    "TOOL": "tool",
    "RETRIEVER": "tool",
}
_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
    "gen_ai.content.prompt": "user",
    "gen_ai.content.completion": "assistant",
}
_OURS: Final = frozenset({"trace_id", "span_id", "parent_span_id", "log", "event"})
"""Names under which bodies of messages say where they were."""

_SETTINGS: Final = "gen_ai.request."

MAX_STEPS: Final = 16
"""Parts of a dotted name that become objects within each other."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, as the bodies of its request and its response; `call_id` if the span gives one."""

    kind: Literal["model", "tool"]
    name: str | None
    call_id: str | None
    request: Attributes
    response: Attributes


def call_of(attributes: Attributes) -> Call | None:
    """The call that a span with these attributes is; None if it is none."""
    operation = attributes.get("gen_ai.operation.name")
    kind = _KINDS.get(str(attributes.get("openinference.span.kind")).upper())
    is_older = operation is None and "gen_ai.request.model" in attributes
    if operation in _MODEL_OPERATIONS or is_older or kind == "model":
        return _model_call(attributes)
    if operation == "execute_tool" or kind == "tool":
        return _tool_call(attributes)
    return None


def message_of(name: str, body: Any, attributes: Attributes) -> Attributes | None:
    """The message that an event of this name is (older conventions); None if it is none."""
    if name not in _ROLES:
        return None
    if body is None:
        body = _taken(attributes, "content", "gen_ai.prompt", "gen_ai.completion")
    if isinstance(body, dict) and not body.keys() & _OURS:
        return {"role": _ROLES[name]} | body
    return {"role": _ROLES[name], "content": body}


def nested(attributes: Attributes) -> Attributes:
    """Dotted names as objects within each other, so that rules for fields see the last part.

    Where a name is a value and a namespace at once, or too long, it stays as it is.
    """
    root: Attributes = {}
    for name in sorted(attributes):
        steps = name.split(".")
        place: Any = root
        for step in steps[:-1] if len(steps) <= MAX_STEPS else ():
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        is_free = isinstance(place, dict) and steps[-1] not in place and len(steps) <= MAX_STEPS
        if is_free:
            place[steps[-1]] = attributes[name]
        else:
            root[name] = attributes[name]
    return root


def _model_call(attributes: Attributes) -> Call:
    provider = _taken(attributes, "gen_ai.provider.name", "gen_ai.system", "llm.provider")
    model = _taken(attributes, "gen_ai.request.model", "llm.model_name")
    about = _given(provider=provider, requested_model=model)
    settings = _taken(attributes, "llm.invocation_parameters")
    settings = settings if isinstance(settings, dict) else _given(parameters=settings)
    for name in [name for name in attributes if name.startswith(_SETTINGS)]:
        settings[name.removeprefix(_SETTINGS)] = attributes.pop(name)
    request = about | _given(
        settings=settings or None,
        system_instructions=_taken(attributes, "gen_ai.system_instructions"),
        messages=_taken(attributes, "gen_ai.input.messages", "gen_ai.prompt")
        or _listed(attributes, "llm.input_messages."),
        tools=_taken(attributes, "gen_ai.tool.definitions") or _listed(attributes, "llm.tools."),
        input=_taken(attributes, "input.value"),
    )
    usage = _given(
        input_tokens=_taken(
            attributes,
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
        ),
        output_tokens=_taken(
            attributes,
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
        ),
    )
    response = about | _given(
        returned_model=_taken(attributes, "gen_ai.response.model"),
        request_id=_taken(attributes, "gen_ai.response.id"),
        stop_reason=_taken(attributes, "gen_ai.response.finish_reasons"),
        message=_taken(attributes, "gen_ai.output.messages", "gen_ai.completion")
        or _listed(attributes, "llm.output_messages."),
        output=_taken(attributes, "output.value"),
        usage=usage or None,
    )
    return Call("model", _text(model), None, request, response)


def _tool_call(attributes: Attributes) -> Call:
    name = _text(_taken(attributes, "gen_ai.tool.name", "tool.name"))
    call_id = _text(_taken(attributes, "gen_ai.tool.call.id", "tool_call.id"))
    arguments = _taken(attributes, "gen_ai.tool.call.arguments", "input.value", "tool.parameters")
    result = _taken(attributes, "gen_ai.tool.call.result", "output.value", "retrieval.documents")
    result = _listed(attributes, "retrieval.documents.") if result is None else result
    return Call("tool", name, call_id, {"arguments": arguments}, {"content": result})


def _taken(attributes: Attributes, *names: str) -> Any:
    """The first of these attributes, JSON in a text as what it says; it is an attribute no more."""
    for name in names:
        if name in attributes:
            value = attributes.pop(name)
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                with suppress(ValueError, RecursionError):
                    return faithful_json(value)
            return value
    return None


def _listed(attributes: Attributes, prefix: str) -> list[Any] | None:
    """A list that OpenInference wrote as attributes `<prefix><number>.…`; they are taken."""
    names = [name for name in attributes if name.startswith(prefix)]
    parts: dict[int, Attributes] = {}
    for name in names:
        number, _, rest = name.removeprefix(prefix).partition(".")
        if number.isascii() and number.isdigit() and len(number) < 7 and rest:
            parts.setdefault(int(number), {})[rest] = attributes.pop(name)
    return [nested(parts[number]) for number in sorted(parts)] or None


def _given(**values: Any) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
