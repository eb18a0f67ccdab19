"""What the demo shows: counts, one masked row, a query, the verdict.  Nothing here was ever raw."""

import json
import sys
from collections.abc import Iterator, Mapping
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
GROUP BY ALL ORDER BY redactions DESC, rule"""
EXAMPLE = """\
SELECT body, redactions FROM events
WHERE kind = 'tool.responded' AND name = 'ask_carrier' AND body LIKE '%"error"%'
ORDER BY occurred_at, run_id LIMIT 1"""
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
    console.print(_example(demo))
    console.print(_table(f"A query\n{TOOLS}", _rows(demo, TOOLS)))
    console.print(_verdict(demo), style="bold")
    for line in _hints(demo):
        console.print(line, markup=False, soft_wrap=True)


def masked_spans(body: str, redactions: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """For each redaction of a stored body: where, which rule, and the text around the mask.

    `before` shows a bar in the mask's place: the original is nowhere to be had.
    """
    document = json.loads(body)
    for redaction in redactions:
        text, start, end = _place(document, redaction)
        head, tail = text[:start][-CONTEXT:], text[end:][:CONTEXT]
        yield {
            "where": redaction["path"],
            "rule": redaction["rule"],
            "before": f"{head}██████{tail}",
            "after": f"{head}{text[start:end]}{tail}",
        }


def _place(document: Any, redaction: Mapping[str, Any]) -> tuple[str, int, int]:
    """The stored text that holds a mask, and the mask's span in it."""
    value = document
    for step in redaction["path"].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    text = value if isinstance(value, str) else json.dumps(value)
    if redaction["layers"] or redaction["span_start"] is None:
        return text, 0, len(text)
    return text, redaction["span_start"], redaction["span_end"]


def _rows(demo: Demo, sql: str) -> list[dict[str, Any]]:
    result = query(open_lake(str(demo.lake)), sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def _example(demo: Demo) -> Table:
    title = "The carrier's failure message, as it is stored (masks only)"
    spans = [
        span
        for row in _rows(demo, EXAMPLE)
        for span in masked_spans(row["body"], row["redactions"])
    ]
    return _table(title, spans)


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = list(rows[0]) if rows else []
    table = Table(*columns, title=Text(title), title_justify="left", box=SIMPLE)
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
