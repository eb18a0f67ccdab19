"""A verification report and a log for a person or a program to read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from pipeline.lake.entries import Commit
from pipeline.lake.history import History
from pipeline.lake.proof.findings import CODES, Finding, Report

SHOWN_FINDINGS = 20


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while it lasts; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def report_as_json(report: Report) -> str:
    """One object: verdict, partitions, findings with severity and meaning."""
    return json.dumps(
        {
            "clean": not report.violations,
            "files": report.files,
            "rows": report.rows,
            "compared": report.compared,
            "partitions": [asdict(partition) for partition in report.partitions],
            "violations": [_finding_as_dict(found) for found in report.violations],
            "advisories": [_finding_as_dict(found) for found in report.advisories],
            "pending": list(report.pending),
        }
    )


def print_report(report: Report) -> None:
    """A table of partitions, the findings, and the verdict as the last line."""
    console = Console(highlight=False)
    columns = ("partition", "offsets", "commits", "stored", "refused", "removed", "in gaps")
    table = Table(*columns, box=SIMPLE)
    for part in report.partitions:
        counts = (
            part.commits,
            part.stored,
            part.refused + part.expired,
            part.removed,
            part.in_gaps,
        )
        name = f"{part.topic} {part.partition}"
        table.add_row(name, f"[{part.start}, {part.end})", *(f"{count:,}" for count in counts))
    console.print(table)
    for title, findings in (("violation", report.violations), ("advisory", report.advisories)):
        for found in findings[:SHOWN_FINDINGS]:
            console.print(f"{title}: {escape(_sentence(found))}", soft_wrap=True)
        if len(findings) > SHOWN_FINDINGS:
            console.print(f"… and {len(findings) - SHOWN_FINDINGS} more (--json has all)")
    if report.pending:
        console.print(f"{len(report.pending)} files belong to slices that are being written")
    checked = f"{report.rows:,} rows in {report.files:,} files"
    if report.violations:
        offsets = [found.offset for found in report.violations if found.offset >= 0]
        at = f", the first at offset {offsets[0]}" if offsets else ""
        console.print(f"NOT as committed: {len(report.violations)} violations{at} ({checked})")
    else:
        console.print(f"as committed: {checked}, every offset accounted for exactly once")
    if report.compared:
        console.print(f"{report.compared:,} records compared with the topic")


def _finding_as_dict(found: Finding) -> dict[str, Any]:
    return asdict(found) | {"meaning": CODES[found.code][1]}


def _sentence(found: Finding) -> str:
    place = f"{found.topic} {found.partition}" if found.topic else ""
    at = f"offset {found.offset}" if found.offset >= 0 else ""
    many = f"{found.count:,} times" if found.count > 1 else ""
    rest = ", ".join(part for part in (place, at, found.path, found.detail, many) if part)
    return f"{CODES[found.code][1]} ({rest})" if rest else CODES[found.code][1]


def history_as_json(histories: tuple[History, ...]) -> str:
    """A list with one object a partition: where it stands, and its commits in full."""
    return json.dumps(
        [
            {
                "topic": history.topic,
                "partition": history.partition,
                "next_number": history.position.next_number,
                "next_offset": history.position.next_offset,
                "open_intent": _as_dict(history.position.open_intent),
                "checkpoint": history.checkpoint.number if history.checkpoint else None,
                "commits": [asdict(commit) for commit in history.commits],
            }
            for history in histories
        ]
    )


def print_histories(histories: tuple[History, ...], last: int) -> None:
    """The last entries of every partition, and the intent that waits for its commit, if any."""
    table = Table("partition", "entry", "offsets", "files", "rows", "claim", "", box=SIMPLE)
    for history in histories:
        name = f"{history.topic} {history.partition}"
        for commit in history.commits[-last:]:
            table.add_row(name, *_commit_cells(commit))
        if (intent := history.position.open_intent) is not None:
            offsets = f"[{intent.start}, {intent.end})"
            table.add_row(
                name, str(intent.number), offsets, "", "", intent.claim[:8], "open intent"
            )
    Console(highlight=False).print(table)


def _commit_cells(commit: Commit) -> tuple[str, ...]:
    rows = sum(file.rows for file in commit.files)
    gaps = ", ".join(f"gap [{gap.start}, {gap.end}) {gap.reason}" for gap in commit.gaps)
    note = f"superseded: {commit.superseded}" if commit.superseded is not None else gaps
    return (
        str(commit.number),
        f"[{commit.start}, {commit.end})",
        str(len(commit.files)),
        f"{rows:,}",
        commit.claim[:8],
        escape(note),
    )


def _as_dict(entry: Any) -> dict[str, Any] | None:
    return None if entry is None else asdict(entry)
