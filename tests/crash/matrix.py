"""The table of a full run: what happened at each fault point, over all schedules."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from crash.evidence import Verdict
from crash.world import World

from pipeline.faultpoints import POINTS

COMMAND = "make crash"
ACTIONS = ("kill", "freeze", "step")


@dataclass
class Matrix:
    """Adds up schedules; a schedule's verdict counts at every point at which it struck."""

    schedules: int = 0
    messages: int = 0
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, world: World, verdict: Verdict) -> None:
        self.schedules += 1
        self.messages += verdict.sent
        wrong = {
            "lost": verdict.lost,
            "doubled": len(verdict.doubled) + len(verdict.invented),
            "changed": len(verdict.changed) + len(verdict.findings),
            "raw": len(verdict.raw),
        }
        self.struck.update((fault.point, fault.action) for fault in world.struck)
        for point in {fault.point for fault in world.struck}:
            self.wrong.update({(point, what): count for what, count in wrong.items()})

    def write(self, path: Path) -> str:
        """Writes the table as Markdown; gives its text."""
        heads = ("fault point", "killed", "frozen", "clock stepped")
        heads += ("lost", "doubled", "changed", "raw")
        lines = [
            "# The crash matrix",
            "",
            f"`{COMMAND}`: {self.schedules} seeded schedules, {self.messages:,} messages; after "
            "each, every offset is compared with what was sent, and every byte searched for 1,000 "
            "canaries.",
            "",
            f"| {' | '.join(heads)} |",
            f"| --- {'| ---: ' * (len(heads) - 1)}|",
        ]
        for point in POINTS:
            struck = [self.struck[point, action] for action in ACTIONS]
            wrong = [self.wrong[point, what] for what in heads[4:]]
            lines.append(f"| {point} | {' | '.join(map(str, [*struck, *wrong]))} |")
        text = "\n".join(lines) + "\n"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return text
