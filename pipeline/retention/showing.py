"""Plans, receipts and the ledger for a person or a program to read."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.retention.copies import Copy
from pipeline.retention.holds import Hold
from pipeline.retention.ledger import Broken, Receipt, RemovalIntent
from pipeline.retention.plan import BucketFacts, Plan
from pipeline.retention.shorten import Shortening
from pipeline.retention.topic import Drift

SHOWN_BUCKETS = 50


def time_text(time_us: int) -> str:
    """A time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plan_as_json(plan: Plan) -> str:
    """One object: totals, buckets that go, buckets with held rows, unfinished files."""
    return json.dumps(
        {
            "now": time_text(plan.now_us),
            "files": plan.files,
            "bytes": plan.size_bytes,
            "rows": plan.rows,
            "runs": plan.runs,
            "held_rows": plan.held_rows,
            "buckets": [_facts_as_dict(each) for each in plan.buckets],
            "held": [_facts_as_dict(each) for each in plan.held],
            "unfinished": [file.key for file in plan.unfinished],
            "copies": [asdict(copy) for copy in plan.copies],
            "holds": [asdict(hold) for hold in plan.holds],
            "to_review": [hold.number for hold in plan.to_review],
        }
    )


def print_plan(plan: Plan) -> None:
    """A table of the buckets that go, and the totals as the last line."""
    console = Console(highlight=False)
    if plan.buckets or plan.held:
        table = Table("bucket", "files", "bytes", "rows", "runs", "held rows", box=SIMPLE)
        shown = sorted({*plan.buckets, *plan.held}, key=lambda each: each.bucket)
        for each in shown[:SHOWN_BUCKETS]:
            numbers = (each.files + each.strays, each.size_bytes, each.rows, len(each.runs))
            table.add_row(
                escape(each.bucket.folder),
                *(f"{number:,}" for number in (*numbers, each.held_rows)),
            )
        console.print(table)
        if len(shown) > SHOWN_BUCKETS:
            console.print(
                f"… and {len(shown) - SHOWN_BUCKETS:,} more buckets: --json lists them all"
            )
    for hold in plan.to_review:
        console.print(
            f"hold {hold.number} was to be reviewed on {hold.review_on} by {escape(hold.owner)}"
        )
    for copy in plan.copies:
        console.print(f"copy {copy.number} goes: {escape(copy.location)}")
    console.print(
        f"at {time_text(plan.now_us)}: {plan.rows:,} rows of {plan.runs:,} runs go with "
        f"{plan.files:,} files ({plan.size_bytes:,} bytes); {plan.held_rows:,} rows are held"
    )


def hold_as_json(hold: Hold) -> str:
    """One hold as an object."""
    return json.dumps(asdict(hold))


def holds_as_json(holds: Sequence[Hold]) -> str:
    """A list of holds."""
    return json.dumps([asdict(hold) for hold in holds])


def print_holds(holds: Sequence[Hold]) -> None:
    """The holds in force as a table."""
    columns = ("hold", "rows", "reason", "owner", "review on", "since", "by")
    table = Table(*columns, box=SIMPLE)
    for hold in holds:
        table.add_row(
            str(hold.number),
            escape(_conditions(hold)),
            escape(hold.reason),
            escape(hold.owner),
            hold.review_on,
            time_text(hold.now_us),
            escape(hold.by),
        )
    Console(highlight=False).print(table if holds else "no hold is in force")


def _conditions(hold: Hold) -> str:
    parts = [*hold.runs, *hold.subjects, *(f"class {name}" for name in hold.classes)]
    parts += [f"from {time_text(hold.from_us)}"] if hold.from_us is not None else []
    parts += [f"until {time_text(hold.until_us)}"] if hold.until_us is not None else []
    return ", ".join(parts)


def receipt_as_json(receipt: Receipt | None) -> str:
    """The receipt as one object; null if there was nothing to do."""
    return json.dumps(asdict(receipt) if receipt else None)


def print_receipt(receipt: Receipt | None) -> None:
    """What went, and one line for everything that would not."""
    console = Console(highlight=False)
    if receipt is None:
        console.print("there is nothing to remove")
        return
    rows = sum(each.rows for each in receipt.buckets)
    files = sum(each.files + each.came_back for each in receipt.buckets)
    loose = len(receipt.strays) + len(receipt.unfinished)
    held = sum(each.held_rows for each in receipt.buckets)
    for failure in receipt.failures:
        console.print(f"not removed: {escape(failure.what)} — {escape(failure.message)}")
    for key in (key for each in receipt.buckets for key in each.left):
        console.print(f"still there: {escape(key)}")
    console.print(
        f"receipt {receipt.number}: {rows:,} rows went with {files + loose:,} files "
        f"of {len(receipt.buckets):,} buckets; {held:,} rows are held"
    )
    if moved := sum(each.moved_rows for each in receipt.buckets):
        console.print(f"{moved:,} rows moved to buckets that end sooner")


def shortening_as_json(found: Shortening) -> str:
    """One object: rows that move, by bucket, and the classes that the policy does not know."""
    rows = {bucket.folder: count for bucket, count in found.rows.items()}
    return json.dumps({"rows": rows, "unknown_classes": found.unknown})


def print_shortening(found: Shortening) -> None:
    """The buckets with rows that move as a table, and the total as the last line."""
    console = Console(highlight=False)
    if found.rows:
        table = Table("bucket", "rows that go sooner", box=SIMPLE)
        for bucket, count in list(found.rows.items())[:SHOWN_BUCKETS]:
            table.add_row(escape(bucket.folder), f"{count:,}")
        console.print(table)
    for name in found.unknown:
        console.print(f"the policy has no class {escape(name)}: its rows stay as they are")
    total = sum(found.rows.values())
    console.print(f"{total:,} rows of {len(found.rows):,} buckets would go sooner")


def ledger_as_json(
    entries: Iterable[tuple[RemovalIntent, Receipt | None]], broken: Iterable[Broken], head: str
) -> str:
    """One object: entries with intent and receipt, the breaks of the chain, its head."""
    return json.dumps(
        {
            "entries": [
                {"intent": asdict(intent), "receipt": asdict(receipt) if receipt else None}
                for intent, receipt in entries
            ],
            "broken": [asdict(each) for each in broken],
            "head": head,
        }
    )


def print_ledger(
    entries: Iterable[tuple[RemovalIntent, Receipt | None]],
    broken: Iterable[Broken],
    head: str,
    last: int,
) -> None:
    """The last entries as a table, then whether the chain holds."""
    console = Console(highlight=False)
    table = Table("entry", "purpose", "when", "by", "buckets", "rows", "outcome", box=SIMPLE)
    for intent, receipt in list(entries)[-last:]:
        rows = sum(each.rows for each in receipt.buckets) if receipt else 0
        table.add_row(
            str(intent.number),
            intent.purpose,
            time_text(intent.now_us),
            escape(intent.by),
            f"{len(intent.buckets):,}",
            f"{rows:,}",
            _outcome(receipt),
        )
    console.print(table)
    breaks = list(broken)
    for each in breaks:
        console.print(f"entry {each.number}: {each.what}")
    if not breaks:
        console.print(f"the chain holds; its head is {head or 'empty'}")


def copies_as_json(copies: Sequence[Copy]) -> str:
    """A list of copies."""
    return json.dumps([asdict(copy) for copy in copies])


def print_copies(copies: Sequence[Copy]) -> None:
    """The copies that are not known to be gone, as a table."""
    table = Table("copy", "kind", "location", "deadline", "made", "by", box=SIMPLE)
    for copy in copies:
        table.add_row(
            str(copy.number),
            copy.kind,
            escape(copy.location),
            time_text(copy.deadline_us),
            time_text(copy.now_us),
            escape(copy.by),
        )
    Console(highlight=False).print(table if copies else "no copy is known")


def drift_as_json(drift: Sequence[Drift], *, repaired: bool) -> str:
    """A list of settings that are wrong, or were."""
    return json.dumps([asdict(each) | {"repaired": repaired} for each in drift])


def print_drift(drift: Sequence[Drift], *, repaired: bool) -> None:
    """A line for each setting that is wrong, or was."""
    console = Console(highlight=False)
    for each in drift:
        done = "set to" if repaired else "should be"
        console.print(f"{each.setting} = {each.found}, {done} {each.wanted}: {each.why}")
    if not drift:
        console.print("the topic keeps no record longer than the policy")


def _outcome(receipt: Receipt | None) -> str:
    if receipt is None:
        return "open"
    if receipt.abandoned:
        return "taken over"
    return "complete" if receipt.is_complete else "not everything went"


def _facts_as_dict(each: BucketFacts) -> dict[str, Any]:
    return {
        "table": each.bucket.table,
        "retention_class": each.bucket.retention_class,
        "expires": each.bucket.expires,
        "files": each.files,
        "strays": each.strays,
        "bytes": each.size_bytes,
        "rows": each.rows,
        "runs": len(each.runs),
        "held_rows": each.held_rows,
    }
