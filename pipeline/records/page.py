"""A run as one HTML file: no script, nothing loaded from anywhere, everything stored escaped.

Keyboard and screen readers find landmarks, headings in order, tables with captions and header
cells; masks are `<mark>` with the rule in words.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from pipeline.records.completeness import EXPIRED
from pipeline.records.reading import Row, RunView
from pipeline.records.show import expired_rows
from pipeline.records.timeline import Step, timeline

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}caption{text-align:left;font-weight:600}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;border-bottom:1px solid #8886}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8882;padding:.5rem}
mark{background:#ffd54a;color:#000;padding:0 .15em}summary{cursor:pointer}
.gap{font-weight:600}:focus-visible{outline:3px solid #06c}
"""

# The browser itself refuses to load or run anything that slipped through.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

_STANDS: Final = ("present", "redacted", "not applicable")


def page(view: RunView, now_us: int) -> str:
    """The page of a run."""
    return "".join(_page(view, now_us))


def _page(view: RunView, now_us: int) -> Iterator[str]:
    title = escape(f"Run {view.run_id}")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f'<header><h1>{title}</h1></header><nav aria-label="Sections"><ul>'
    )
    for name in ("record", "task", "decisions", "timeline"):
        yield f'<li><a href="#{name}">{name.capitalize()}</a></li>'
    yield "</ul></nav><main>"
    yield from _record(view, now_us)
    yield from _events(view, "task", "Task snapshot", ("task.captured",))
    yield from _events(
        view,
        "decisions",
        "Decisions and effects",
        ("decision.made", "effect.intended", "effect.completed", "intervention"),
    )
    yield from _timeline(view)
    yield "</main></body></html>\n"


def _record(view: RunView, now_us: int) -> Iterator[str]:
    yield '<section id="record" aria-labelledby="record-h"><h2 id="record-h">Record</h2>'
    if not view.records:
        yield "<p>The run has not ended: it has no record yet.</p>"
    for record in view.records:
        whole = "complete" if record["complete"] else "incomplete"
        yield f"<h3>Attempt {record['attempt']}: {escape(record['status'])}, {whole}</h3>"
        expired = expired_rows(record, now_us)
        states = [
            (each["row"], EXPIRED if each["row"] in expired else each["state"])
            for each in record["completeness"]
        ]
        rows = [
            (escape(row), escape(state) if state in _STANDS else _gap(state))
            for row, state in states
        ]
        yield from _table("The eleven rows", ("row", "state"), rows)
        missing = [
            (escape(gap["field"]), escape(gap["reason"]), escape(gap["cost"]))
            for gap in record["missing"]
        ]
        if missing:
            headers = ("field", "reason", "cost")
            yield from _table("What is missing, and what that costs", headers, missing)
    yield "</section>"


def _gap(state: str) -> str:
    return f'<span class="gap">✗ {escape(state)}</span>'


def _events(view: RunView, name: str, title: str, kinds: tuple[str, ...]) -> Iterator[str]:
    yield f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{title}</h2>'
    found = [event for event in view.events if event["kind"] in kinds]
    if not found:
        yield "<p>None was recorded.</p>"
    for event in found:
        about = f"{event['kind']} {event['name'] or ''}".strip()
        yield f"<h3>{escape(about)}, step {event['sequence']} of attempt {event['attempt']}</h3>"
        yield _body(event)
    yield "</section>"


def _timeline(view: RunView) -> Iterator[str]:
    yield '<section id="timeline" aria-labelledby="timeline-h"><h2 id="timeline-h">Timeline</h2>'
    rows = [_step(step, event) for step, event in zip(timeline(view), view.events, strict=True)]
    headers = ("attempt", "step", "after", "kind", "name", "took", "notes", "content")
    yield from _table("Every step, in order", headers, rows)
    yield "</section>"


def _step(step: Step, event: Row) -> tuple[str, ...]:
    took = f"{step.took_ms} ms" if step.took_ms is not None else ""
    notes = [step.state] if step.state else []
    notes += [f"{step.tokens[0]} tokens in, {step.tokens[1]} out"] if step.tokens else []
    notes += [f"{step.masks} masked"] if step.masks else []
    content = f"<details><summary>content</summary>{_body(event)}</details>"
    cells = (step.attempt, step.sequence, f"{step.after_s:.3f} s", step.kind, step.name, took)
    return (*(escape(str(cell)) for cell in cells), escape(", ".join(notes)), content)


def _table(
    caption: str, headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> Iterator[str]:
    """A table of cells that are escaped already."""
    heads = "".join(f'<th scope="col">{header}</th>' for header in headers)
    yield f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"


def _body(event: Row) -> str:
    """The body, indented, with its declared masks marked in place."""
    marks: dict[str, list[tuple[int, int, str]]] = {}
    for each in event["redactions"]:
        is_here = each["path"][:1] in ("", "/") and not each["layers"]
        if is_here and each["span_start"] is not None and each["span_end"] is not None:
            place = (each["span_start"], each["span_end"], each["rule"])
            marks.setdefault(each["path"], []).append(place)
        elif each["path"][:1] in ("", "/"):
            marks.setdefault(each["path"], []).append((0, -1, each["rule"]))
    try:
        return f"<pre>{''.join(_value(json.loads(event['body']), '', marks, 0))}</pre>"
    except RecursionError:
        return f"<pre>{_text(event['body'])}</pre>"


def _value(
    value: Any, path: str, marks: dict[str, list[tuple[int, int, str]]], depth: int
) -> Iterator[str]:
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(value, dict) and value:
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield f"{',' if index else ''}{inner}{_text(json.dumps(key, ensure_ascii=False))}: "
            step = key.replace("~", "~0").replace("/", "~1")
            yield from _value(item, f"{path}/{step}", marks, depth + 1)
        yield f"{outer}}}"
    elif isinstance(value, list) and value:
        yield "["
        for index, item in enumerate(value):
            yield f"{',' if index else ''}{inner}"
            yield from _value(item, f"{path}/{index}", marks, depth + 1)
        yield f"{outer}]"
    elif isinstance(value, str):
        yield f"&quot;{_marked(value, marks.get(path, []))}&quot;"
    else:
        text = _text(json.dumps(value, ensure_ascii=False))
        yield _mark(text, marks[path][0][2]) if path in marks else text


def _marked(text: str, places: list[tuple[int, int, str]]) -> str:
    at, parts = 0, []
    for start, end, rule in sorted(places):
        end = len(text) if end < 0 else end
        if start < at:
            continue
        parts += [_text(text[at:start]), _mark(_text(text[start:end]), rule)]
        at = end
    return "".join([*parts, _text(text[at:])])


def _mark(html: str, rule: str) -> str:
    return f'<mark title="masked by {escape(rule)}">{html}</mark>'


def _text(text: str) -> str:
    """Escaped, and without what no page may hold (half surrogate pairs, NUL)."""
    return escape(text.encode("utf-8", "replace").decode().replace("\0", "�"))
