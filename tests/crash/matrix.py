"""The table of the full runs: what happened at each fault point, over all schedules.

Each schedule leaves a line in a file beside the table, and one that is run again a newer one: the
seeds may be run in portions.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from crash.evidence import Verdict
from crash.schedules import ACTIONS
from crash.world import World

from pipeline.faultpoints import POINTS

COMMAND = "make crash"

ALL = 100
"""Seeds of the full matrix."""

NAMES = {
    "kill": "killed",
    "freeze": "frozen",
    "step": "clock stepped",
    "fill": "disk full",
    "lock": "read-only",
}

WRONGS = ("lost", "doubled", "changed", "raw")


def note(path: Path, seed: int, world: World, verdict: Verdict) -> None:
    """Adds the line of a schedule."""
    line = {
        "seed": seed,
        "messages": verdict.sent,
        "canaries": verdict.canaries,
        "struck": [[fault.point, fault.action] for fault in world.struck],
        "missed": len(world.missed),
        "broker": dict(world.broker_events),
        "sweeps": world.sweeps,
        "lost": verdict.lost,
        "doubled": len(verdict.doubled) + len(verdict.invented),
        "changed": len(verdict.changed) + len(verdict.findings),
        "raw": len(verdict.raw),
    }
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def table(lines: Path) -> str:
    """The table of all schedules noted, as Markdown.

    A schedule's verdict counts at every point at which it struck.
    """
    noted = [json.loads(line) for line in lines.read_text().splitlines()]
    runs = list({run["seed"]: run for run in noted}.values())
    struck: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    for run in runs:
        struck.update((point, action) for point, action in run["struck"])
        for point in {point for point, _ in run["struck"]}:
            wrong.update({(point, what): run[what] for what in WRONGS})
    heads = ["fault point", *NAMES.values(), *WRONGS]
    rows = [
        f"| {point} | "
        + " | ".join(str(struck[point, action]) for action in ACTIONS)
        + " | "
        + " | ".join(str(wrong[point, what]) for what in WRONGS)
        + " |"
        for point in POINTS
    ]
    return "\n".join(
        [
            *_about(runs),
            "",
            f"| {' | '.join(heads)} |",
            f"| --- {'| ---: ' * (len(heads) - 1)}|",
            *rows,
            "",
        ]
    )


def _about(runs: list[dict[str, Any]]) -> list[str]:
    brokers = sum((Counter(run["broker"]) for run in runs), Counter[str]())
    total = {what: sum(run[what] for run in runs) for what in WRONGS}
    return [
        "# The crash matrix",
        "",
        f"`{COMMAND}` (in portions with `CRASH_SEEDS=0-10`): {len(runs)} of {ALL} seeded schedules "
        f"have been run, with {sum(r['messages'] for r in runs):,} "
        f"messages, {sum(r['canaries'] for r in runs):,} of them with one of 1,000 canaries. "
        f"{sum(len(run['struck']) for run in runs)} faults struck workers; the broker was killed "
        f"{brokers['kill']} times and did not answer for a while {brokers['cut']} times; "
        f"{sum(run['sweeps'] for run in runs)} times a frozen worker woke after its buckets had "
        "been swept. After each schedule every offset is compared with what was sent, and every "
        "byte searched for the canaries.",
        "",
        "In all: " + ", ".join(f"{count} {what}" for what, count in total.items()) + ".",
    ]
