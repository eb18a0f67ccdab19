"""`langsmith`: runs as LangSmith exports them (JSON lines, or a list); a trace is one run.

LangSmith calls a span a run, and what we call a run a trace.

| in the file | event |
| --- | --- |
| the root of a trace | `run.started`, `task.captured` (its `inputs`), `run.finished` |
| an `llm` span | `model.requested` at its start, `model.responded` at its end |
| a `tool` or `retriever` span | `tool.requested`, `tool.responded` |
| any other span | `other`, `kind_name` is `langsmith.<its run_type>`, with all of it |

Each field of a span stands in one body: what is known at its end (`outputs`, `error`, `events`, …)
in the second event, all else in the first.  Events stand in the order of time; `call_id` is the
span's id.  A root that has no `end_time` has not ended.  The run's id is the trace's.  Rows of the
run record that an export says nothing of are declared missing.  Times without a zone are UTC.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any, Final

from pipeline.formats.base import Format, Source, epoch_us, parse_json
from pipeline.formats.run import Run
from schemas import OTHER, RunEvent

_START: Final = re.compile(rb"\s*+(?:\[\s*+)?+\{")
_LACKING: Final = ("code", "policy", "environment", "integrations", "outputs", "authority")
_AT_END: Final = frozenset(
    {"outputs", "error", "events", "end_time", "status", "feedback_stats"}
    | {"prompt_tokens", "completion_tokens", "total_tokens", "first_token_time"}
)
_CALLS: Final = frozenset({"tool", "retriever"})

Span = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Whether spans begin that have a type and a trace."""
    return bool(_START.match(head)) and b'"run_type"' in head and b'"trace_id"' in head


def read(source: Source) -> Iterator[RunEvent]:
    """One run for each trace, in the order of their first spans."""
    traces: dict[str, list[Span]] = {}
    for span in _spans(source):
        traces.setdefault(span["trace_id"], []).append(span)
    for trace_id, spans in traces.items():
        yield from _Trace(trace_id, spans, source.captured_at_us).told()


def _spans(source: Source) -> Iterator[Span]:
    content = source.whole()
    if content.lstrip()[:1] == b"[":
        given = parse_json(source, content)
    else:
        lines = enumerate(content.splitlines(), start=1)
        given = [parse_json(source, text, line=number) for number, text in lines if text.strip()]
    waiting = list(reversed(given if isinstance(given, list) else [None]))
    while waiting:
        span = waiting.pop()
        if not (
            isinstance(span, dict)
            and all(isinstance(span.get(key), str) for key in ("id", "trace_id", "run_type"))
        ):
            source.fail("this is not a list of spans with id, trace_id and run_type")
        within = span.get("child_runs")
        waiting += reversed(within if isinstance(within, list) else [])
        yield {key: span[key] for key in span if key != "child_runs"}


class _Trace:
    """Tells one trace as events of a run."""

    def __init__(self, trace_id: str, spans: list[Span], captured_at_us: int) -> None:
        self._run = Run(trace_id, "langsmith", captured_at_us)
        self._root = next((span for span in spans if span["id"] == trace_id), None)
        self._spans, self._captured_at_us = spans, captured_at_us

    def told(self) -> Iterator[RunEvent]:
        moments = sorted(self._moments(), key=lambda moment: moment[:3])
        self._run.at_us = moments[0][0]
        yield from self._begun()
        for time_us, _, _, span, is_end in moments:
            self._run.at_us = time_us
            yield from self._ended(span) if is_end else self._started(span)
        if self._root and self._root.get("end_time"):
            yield self._run.event("run.finished", self._outcome(self._root))

    def _moments(self) -> Iterator[tuple[int, int, int, Span, bool]]:
        """Start and end of each span: time, two keys for those of one time, the span, which."""
        for number, span in enumerate(self._spans):
            start_us = _time_us(span.get("start_time"), self._captured_at_us)
            end_us = _time_us(span.get("end_time"), start_us)
            yield start_us, 1, number, span, False
            # What ends here ends before the next begins, the inner before the outer.
            yield end_us, 0 if end_us > start_us else 2, -number, span, True

    def _begun(self) -> Iterator[RunEvent]:
        root = self._root or {}
        identity = {key: root[key] for key in root if key not in _AT_END and key != "inputs"}
        trigger = {"type": "import", "format": "langsmith"}
        is_told = _kind(root) != OTHER
        yield self._run.event("run.started", {"trigger": trigger} | ({} if is_told else identity))
        if root.get("inputs") is not None and not is_told:
            yield self._run.event("task.captured", {"task": root["inputs"], "source": "inputs"})
        else:
            yield from self._run.declare("missing", "task")
        yield from self._run.declare("missing", *_LACKING)

    def _started(self, span: Span) -> Iterator[RunEvent]:
        kind = _kind(span)
        if kind == OTHER:
            if span is not self._root:
                named = f"langsmith.{span['run_type']}"
                yield self._run.event(OTHER, span, kind_name=named, name=_text(span.get("name")))
            return
        asked = {key: span[key] for key in span if key not in _AT_END}
        if kind == "tool":
            asked = {"arguments": asked.pop("inputs", None)} | asked
        else:
            asked = _model(span) | asked
        yield self._run.event(f"{kind}.requested", asked, **_pair(span))

    def _ended(self, span: Span) -> Iterator[RunEvent]:
        kind = _kind(span)
        if kind == OTHER or not span.get("end_time"):
            return
        told = {key: span[key] for key in span if key in _AT_END and key != "status"}
        if kind == "tool":
            status = "error" if span.get("error") else "ok"
            told = {"content": told.pop("outputs", None), "status": status} | told
        else:
            usage = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
            counts = {ours: told.get(theirs) for ours, theirs in usage.items()}
            told = _model(span) | {"usage": counts} | told
        yield self._run.event(f"{kind}.responded", told, **_pair(span))

    def _outcome(self, root: Span) -> dict[str, Any]:
        told = {} if _kind(root) != OTHER else {key: root[key] for key in root if key in _AT_END}
        return told | {"status": "failed" if root.get("error") else "completed"}


def _kind(span: Span) -> str:
    """`model` or `tool` for a span that is a call, else `other`."""
    if span.get("run_type") == "llm":
        return "model"
    return "tool" if span.get("run_type") in _CALLS else OTHER


def _pair(span: Span) -> dict[str, str | None]:
    model = _model(span).get("requested_model")
    return {"name": _text(model) or _text(span.get("name")), "call_id": span["id"]}


def _model(span: Span) -> dict[str, Any]:
    """Provider and model that a span of a model says it asked for."""
    extra = _object(span.get("extra"))
    said, settings = _object(extra.get("metadata")), _object(extra.get("invocation_params"))
    if _kind(span) != "model":
        return {}
    model = said.get("ls_model_name") or settings.get("model") or settings.get("model_name")
    return {"provider": said.get("ls_provider"), "requested_model": model}


def _object(value: Any) -> Span:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _time_us(time: Any, otherwise_us: int) -> int:
    with suppress(TypeError, ValueError):
        return epoch_us(time, zone=UTC)
    return otherwise_us


FORMAT: Final = Format("langsmith", sniff, read)
