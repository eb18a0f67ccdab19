"""Two runs side by side as one HTML file: no script, nothing loaded, everything escaped."""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final

from pipeline.replay.difference import Found, aligned
from pipeline.replay.record import RecordedCall, RecordedRun

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:90rem;margin:0 auto;padding:1rem}
table{border-collapse:collapse;width:100%;table-layout:fixed;margin:1rem 0}
caption{text-align:left;font-weight:600}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;border-bottom:1px solid #8886}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
mark{background:#ffd54a;color:#000;padding:0 .15em}:focus-visible{outline:3px solid #06c}
"""
# The browser itself refuses to load or run anything that slipped through.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def page(one: RecordedRun, other: RecordedRun, found: Iterable[Found]) -> str:
    """The page of two runs and their differences."""
    return "".join(_page(one, other, list(found)))


def _page(one: RecordedRun, other: RecordedRun, found: list[Found]) -> Iterator[str]:
    title = escape(f"{one.run_id} and {other.run_id}")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"<header><h1>{title}</h1></header><main>"
    )
    rows = [
        (
            str(each.step),
            f"{each.boundary} {each.name}",
            f"{each.side} {each.path}",
            each.kind,
            _json(each.one),
            _json(each.other),
        )
        for each in found
    ]
    yield from _table("Differences", ("step", "call", "where", "class", "A", "B"), rows)
    calls = [(_call(a), _call(b)) for a, b in aligned(one.calls, other.calls)]
    marked = [(_marked(a, a != b), _marked(b, a != b)) for a, b in calls]
    yield from _table("Calls, side by side", ("A", "B"), marked, is_html=True)
    yield "</main></body></html>\n"


def _call(call: RecordedCall | None) -> str:
    if call is None:
        return ""
    answer = _json(call.answer.body) if call.answer else "no answer"
    return f"step {call.place.step}: {call.boundary} {call.name}\n{_json(call.request)}\n→ {answer}"


def _marked(text: str, differs: bool) -> str:
    head, _, rest = text.partition("\n")
    shown = f"<mark>{escape(head)}</mark>" if differs and head else escape(head)
    return f"<pre>{shown}\n{escape(rest)}</pre>"


def _table(
    caption: str, names: Iterable[str], rows: Iterable[Iterable[str]], *, is_html: bool = False
) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    yield f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>"
    for row in rows:
        cells = (cell if is_html else f"<pre>{escape(cell)}</pre>" for cell in row)
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
