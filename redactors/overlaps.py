"""Findings, and which of them count where they overlap."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from redactors.compiled import Treatment


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` found something at the code points `[start, end)`; `order` ranks equal ones.

    `value` is what stands there, where it was seen through an encoding.
    """

    start: int
    end: int
    rule: Treatment
    order: int = 0
    value: str | None = None


def resolve(findings: Sequence[Finding], masks: Sequence[tuple[int, int]]) -> list[Finding]:
    """Disjoint findings in order, none of them over a mask.

    Secrets first: those that overlap count as one, under the longest's rule, so that no end of
    one is left.  Then personal data, the longest first; what overlaps something taken already is
    left to the next look, at what then still stands.
    """
    taken = _united(f for f in findings if f.rule.kind == "secret")
    starts = [f.start for f in taken]
    for finding in sorted((f for f in findings if f.rule.kind != "secret"), key=_rank):
        at = bisect_left(starts, finding.end)
        if at == 0 or taken[at - 1].end <= finding.start:
            taken.insert(at, finding)
            starts.insert(at, finding.start)
    return _outside(taken, masks)


def _rank(finding: Finding) -> tuple[int, int, int]:
    return finding.start - finding.end, finding.order, finding.start


def _united(secrets: Iterable[Finding]) -> list[Finding]:
    taken: list[Finding] = []
    longest: Finding | None = None
    for finding in sorted(secrets, key=lambda f: (f.start, -f.end, f.order)):
        if longest is not None and finding.start < taken[-1].end:
            longest = min(longest, finding, key=_rank)
            end = max(taken[-1].end, finding.end)
            taken[-1] = replace(longest, start=taken[-1].start, end=end, value=None)
        else:
            longest = finding
            taken.append(finding)
    return taken


def _outside(taken: Sequence[Finding], masks: Sequence[tuple[int, int]]) -> list[Finding]:
    """What of the disjoint findings lies outside the masks; both are in order."""
    if not masks:
        return list(taken)
    pieces: list[Finding] = []
    first = 0
    for finding in taken:
        start = finding.start
        while first < len(masks) and masks[first][1] <= start:
            first += 1
        at = first
        while at < len(masks) and masks[at][0] < finding.end:
            if masks[at][0] > start:
                pieces.append(replace(finding, start=start, end=masks[at][0], value=None))
            start = max(start, masks[at][1])
            at += 1
        if start < finding.end:
            pieces.append(
                finding if start == finding.start else replace(finding, start=start, value=None)
            )
    return pieces
