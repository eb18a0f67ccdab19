"""`vcr`: a cassette of VCR.py, Betamax or Ruby's VCR, as YAML or JSON; a file is one run.

| in the file | event |
| --- | --- |
| all but the interactions | `run.started` |
| a request that asks a model | `model.requested`, `name` is the model |
| any other request | `tool.requested`, `name` is the host |
| its response | `model.responded` or `tool.responded` |

A request asks a model if its body is a JSON object that names a `model`; `call_id` is the place in
the cassette.  Request and response stand in the bodies as they are (`request`, `response`), bytes
that are no text as `base64_string`.  Rows of the run record that a cassette says nothing of are
declared missing, and a cassette does not say that its run has ended.  An interaction has the time
at which it was recorded, if it says so; else that of the import.  Ids are derived from the content.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from pipeline.formats.base import Format, Source, derived_id, epoch_us, parse_json
from pipeline.formats.run import Run
from schemas import RunEvent

_YAML: Final = re.compile(rb"(?:---\s*+\n)?+(?:http_)?+interactions:\s")
_JSON: Final = re.compile(rb'\s*+\{\s*+"(?:version|recorded_with|(?:http_)?+interactions)"\s*+:')
_LISTS: Final = ("interactions", "http_interactions")
_LACKING: Final = (
    "code", "policy", "environment", "task", "integrations", "outputs", "authority"
)  # fmt: skip
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = frozenset(_TAG + name for name in ("null", "bool", "int", "float", "str"))

NODES_MAX: Final = 10_000_000
"""Values in a cassette, an alias counted as what it stands for: a few lines may name billions."""

Object = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Whether a list of requests with their responses begins."""
    if _YAML.match(head):
        return b"request:" in head
    return bool(_JSON.match(head)) and b'interactions"' in head and b'"request"' in head


def read(source: Source) -> Iterator[RunEvent]:
    """The events of the cassette's run."""
    content = source.whole()
    is_json = content.lstrip()[:1] == b"{"
    cassette = parse_json(source, content) if is_json else _parse_yaml(source, content)
    found = [name for name in _LISTS if isinstance(cassette, dict) and name in cassette]
    if not found or not isinstance(cassette[found[0]], list):
        source.fail("this is not a cassette with interactions")
    run = Run(derived_id("vcr", hashlib.sha256(content).hexdigest()), "vcr", source.captured_at_us)
    rest = {key: cassette[key] for key in cassette if key not in _LISTS}
    yield run.event("run.started", {"trigger": {"type": "import", "format": "vcr"}} | rest)
    yield from run.declare("missing", *_LACKING)
    for number, interaction in enumerate(cassette[found[0]]):
        if not _is_whole(interaction):
            source.fail(f"interaction {number} has no request and response")
        yield from _told(interaction, run, f"interaction-{number}")


def _is_whole(interaction: Any) -> bool:
    return isinstance(interaction, dict) and all(
        isinstance(interaction.get(part), dict) for part in ("request", "response")
    )


def _told(interaction: Object, run: Run, call_id: str) -> Iterator[RunEvent]:
    request, response = interaction["request"], interaction["response"]
    rest = {key: interaction[key] for key in interaction if key not in ("request", "response")}
    if (time_us := _time_us(interaction.get("recorded_at"))) is not None:
        run.at_us = time_us
    host, model = _host(request.get("uri")), _json_body(request).get("model")
    if not isinstance(model, str):
        asked = {"arguments": request}
        yield run.event("tool.requested", asked, name=host, call_id=call_id)
        answer = {"content": response, "status": "error" if _has_failed(response) else "ok"}
        yield run.event("tool.responded", answer | rest, name=host, call_id=call_id)
        return
    about = {"provider": host, "requested_model": model}
    yield run.event("model.requested", about | {"request": request}, name=model, call_id=call_id)
    said = _json_body(response)
    about |= {"returned_model": said.get("model"), "request_id": said.get("id")}
    about |= {"usage": said.get("usage"), "response": response}
    yield run.event("model.responded", about | rest, name=model, call_id=call_id)


def _json_body(message: Object) -> Object:
    """The JSON object that a request or response has as its body; else an empty one."""
    body = message.get("body")
    text = body.get("string") if isinstance(body, dict) else body
    if isinstance(text, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            return value if isinstance(value, dict) else {}
    return text if isinstance(text, dict) else {}


def _host(uri: Any) -> str | None:
    if isinstance(uri, str):
        with suppress(ValueError):
            return urlsplit(uri).hostname
    return None


def _has_failed(response: Object) -> bool:
    status = response.get("status")
    code = status.get("code") if isinstance(status, dict) else response.get("status_code")
    return isinstance(code, int) and code >= 400


def _time_us(time: Any) -> int | None:
    if not isinstance(time, str):
        return None
    with suppress(ValueError):
        return epoch_us(time, zone=UTC)
    with suppress(TypeError, ValueError):
        return epoch_us(parsedate_to_datetime(time).isoformat(), zone=UTC)
    return None


class _Loader(yaml.CSafeLoader):
    """Takes what JSON can hold: times stay text, bytes become text or base64."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    items = {
        str(key): loader.construct_object(value, deep=True)
        for key, (_, value) in zip(keys, node.value, strict=True)
    }
    if len(items) != len(keys):
        raise yaml.YAMLError  # a key is repeated
    return items


def _bytes(loader: _Loader, node: yaml.ScalarNode) -> Any:
    content = loader.construct_yaml_binary(node)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64_string": base64.b64encode(content).decode()}


_Loader.yaml_implicit_resolvers = {
    first: [each for each in found if each[0] in _PLAIN]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: build
    for tag, build in yaml.CSafeLoader.yaml_constructors.items()
    if tag in _PLAIN or tag in (f"{_TAG}seq", None)
} | {f"{_TAG}map": _mapping, f"{_TAG}binary": _bytes}


def _parse_yaml(source: Source, content: bytes) -> Any:
    """The value of a YAML text; what JSON cannot hold as it stands is an error."""
    try:
        loader = _Loader(content)
        node = loader.get_single_node()
        if node is None or _nodes(node, {}) > NODES_MAX:
            source.fail("this is no cassette, or aliases make it too large")
        return loader.construct_document(node)
    except RecursionError:
        source.fail("the YAML is nested too deeply, or within itself")
    except (yaml.YAMLError, ValueError):
        source.fail("this is not valid YAML, or it holds what JSON cannot")


def _nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, aliases followed; endless for one within itself."""
    if id(node) not in known:
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inner = [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        known[id(node)] = 1 + sum(_nodes(each, known) for each in inner)
    return known[id(node)]


FORMAT: Final = Format("vcr", sniff, read)
