"""What the demo shows: counts, one masked row, a query, the verdict.  Nothing here was ever raw."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.demo.run import Demo
from pipeline.lake import open_lake
from pipeline.lake.query import query

RUNS = "SELECT count(DISTINCT run_id) AS runs, count(*) AS events FROM events"
KINDS = "SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY events DESC, kind"
RULES = """\
SELECT r.rule, r.label, r.action, count(*) AS redactions
FROM (SELECT unnest(redactions) AS r FROM events)
GROUP BY ALL ORDER BY redactions DESC, r.rule"""
EXAMPLES = {
    "What a customer wrote, as it is stored": """\
SELECT body, redactions FROM events WHERE kind = 'task.captured'
ORDER BY occurred_at, run_id LIMIT 1""",
    "The carrier's failure message, as it is stored": """\
SELECT body, redactions FROM events
WHERE kind = 'tool.responded' AND name = 'ask_carrier' AND body LIKE '%"error"%'
ORDER BY occurred_at, run_id LIMIT 1""",
}
TOOLS = """\
SELECT name AS tool, count(*) AS answers, sum(len(redactions)) AS redactions
FROM events WHERE kind = 'tool.responded' GROUP BY name ORDER BY name"""

CONTEXT = 48
"""Characters shown on either side of a mask."""


def print_demo(demo: Demo, as_json: bool) -> None:
    """Prints the demo's outcome to stdout: tables, or one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(_as_dict(demo), sort_keys=True) + "\n")
        return
    console = Console(highlight=False)
    (total,) = _rows(demo, RUNS)
    console.print(f"\n{total['runs']} runs, {total['events']} events stored", style="bold")
    console.print(_table("Events by kind", _rows(demo, KINDS)))
    console.print(_table("Redactions by rule", _rows(demo, RULES)))
    for title, sql in EXAMPLES.items():
        console.print(_example(title, _rows(demo, sql)), soft_wrap=True)
    console.print(f"A query\n{TOOLS}")
    console.print(_table("", _rows(demo, TOOLS)))
    console.print(_verdict(demo), style="bold")
    for line in _hints(demo):
        console.print(line, markup=False, soft_wrap=True)


def masked_leaves(body: str, redactions: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """For each masked leaf of a stored body: where, which rules, and the text around its masks.

    `before` has bars in the masks' places: the original is nowhere to be had.
    """
    document = json.loads(body)
    # Columns beside the body have paths without a slash.
    inside = [redaction for redaction in redactions if redaction["path"].startswith("/")]
    for path, group in groupby(sorted(inside, key=_order), key=itemgetter("path")):
        masks = list(group)
        text = _leaf(document, path)
        spans = [_span(text, mask) for mask in masks]
        start, end = max(0, spans[0][0] - CONTEXT), spans[-1][1] + CONTEXT
        yield {
            "where": path,
            "rules": ", ".join(dict.fromkeys(mask["rule"] for mask in masks)),
            "before": _barred(text[:end], spans)[start:],
            "after": text[start:end],
        }


def _order(redaction: Mapping[str, Any]) -> tuple[str, int]:
    return redaction["path"], redaction["span_start"] or 0


def _leaf(document: Any, path: str) -> str:
    """The text at a JSON pointer (RFC 6901)."""
    value = document
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value if isinstance(value, str) else json.dumps(value)


def _span(text: str, redaction: Mapping[str, Any]) -> tuple[int, int]:
    """A mask's place in the leaf; the whole leaf if it lies in a layer further in."""
    if redaction["layers"] or redaction["span_start"] is None:
        return 0, len(text)
    return redaction["span_start"], redaction["span_end"]


def _barred(text: str, spans: Iterable[tuple[int, int]]) -> str:
    at, parts = 0, []
    for start, end in spans:
        parts += [text[at:start], "██████"]
        at = end
    return "".join([*parts, text[at:]])


def _rows(demo: Demo, sql: str) -> list[dict[str, Any]]:
    result = query(open_lake(str(demo.lake)), sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def _example(title: str, rows: list[dict[str, Any]]) -> Text:
    lines = Text(f"{title} (masks only: the original is gone)\n")
    for row in rows:
        for leaf in masked_leaves(row["body"], row["redactions"]):
            lines.append(f"  {leaf['where']} by {leaf['rules']}\n", style="dim")
            lines.append(f"    before  {' '.join(leaf['before'].split())}\n")
            lines.append(f"    after   {' '.join(leaf['after'].split())}\n")
    return lines


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = list(rows[0]) if rows else []
    table = Table(*columns, title=title or None, title_justify="left", box=SIMPLE)
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    return table


def _verdict(demo: Demo) -> str:
    if demo.is_clean:
        advisories = len(demo.proof.advisories)
        return f"verify: clean, every event accounted for once ({advisories} advisories)"
    return f"verify: {len(demo.proof.violations)} violations, {demo.missing} events missing"


def _hints(demo: Demo) -> list[str]:
    keys = f"--keys {demo.keys}"
    return [
        f"the Parquet files lie in {demo.lake}",
        f'query them: redactory query "SELECT * FROM events LIMIT 5" --lake {demo.lake}',
        f"check them: redactory verify --lake {demo.lake} {keys}",
        "next: docs/tutorial.md, ten minutes in which you do all of this yourself",
    ]


def _as_dict(demo: Demo) -> dict[str, Any]:
    (total,) = _rows(demo, RUNS)
    return {
        **total,
        "emitted": demo.emitted,
        "kinds": {row["kind"]: row["events"] for row in _rows(demo, KINDS)},
        "redactions": {row["rule"]: row["redactions"] for row in _rows(demo, RULES)},
        "missing": demo.missing,
        "violations": len(demo.proof.violations),
        "lake": str(demo.lake),
    }
