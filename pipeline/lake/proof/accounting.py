"""Every offset of a partition exactly once: stored, refused, expired, removed or in a gap."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.lake.entries import Commit, FileEntry
from pipeline.lake.proof.files import Offsets, Places
from pipeline.lake.proof.findings import Finding, PartitionReport
from pipeline.lake.proof.trail import Trail
from pipeline.slices import Gap


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets `[start, end)` with what the log says about them; each is accounted for once, and so
    are the `further` events of records that hold several.

    `removed` counts what was gone before a checkpoint, which names no gaps either.
    """

    start: int
    end: int
    rows: int
    removed: int
    refused: int
    expired: int
    gap_offsets: int
    further: int
    files: tuple[FileEntry, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def due(self) -> int:
        """How much there is to account for."""
        return self.end - self.start + self.further

    @property
    def not_stored(self) -> int:
        return self.removed + self.refused + self.expired + self.gap_offsets


def account(
    trail: Trail, stored: Places, swept: Mapping[str, int], findings: list[Finding]
) -> PartitionReport:
    """Compares the log of a partition with the places found in its live files.

    `swept` counts the rows of each slice's file that rewrites removed for good.
    """
    stretches = list(_stretches(trail))
    stored = _once(trail, stored, findings)
    for stretch in stretches:
        _check_stretch(trail, stretch, stored, swept, findings)
    return PartitionReport(
        trail.topic,
        trail.partition,
        stretches[0].start if stretches else 0,
        stretches[-1].end if stretches else 0,
        trail.next_number - 1,
        len(stored),
        sum(stretch.refused for stretch in stretches),
        sum(stretch.expired for stretch in stretches),
        sum(stretch.removed + _swept(stretch, swept) for stretch in stretches),
        sum(stretch.gap_offsets for stretch in stretches),
    )


def _stretches(trail: Trail) -> Iterable[Stretch]:
    if (cut := trail.checkpoint) is not None:
        yield Stretch(
            cut.start,
            cut.end,
            cut.rows,
            cut.removed,
            cut.refused,
            cut.expired,
            cut.gap_offsets,
            cut.further,
            cut.files,
        )
    yield from (_stretch_of(commit) for commit in trail.commits)


def _stretch_of(commit: Commit) -> Stretch:
    return Stretch(
        commit.start,
        commit.end,
        sum(file.rows for file in commit.files if file.table != "runs"),
        0,
        commit.counts.get("refused", 0),
        commit.expired,
        commit.gap_offsets,
        commit.further,
        commit.files,
        commit.gaps,
    )


def _swept(stretch: Stretch, swept: Mapping[str, int]) -> int:
    return sum(swept.get(file.path, 0) for file in stretch.files if file.table != "runs")


def _once(trail: Trail, stored: Places, findings: list[Finding]) -> Offsets:
    """The offset of each row, sorted, those at one place once."""
    stored = stored[:, np.lexsort(stored[::-1])]  # the last key is the first to sort by
    is_new = np.append(True, np.diff(stored).any(axis=0))[: stored.shape[1]]
    if not is_new.all():
        twice = stored[0][~is_new]
        findings.append(_finding(trail, "offset-twice", int(twice[0]), len(twice)))
    once: Offsets = stored[0][is_new]
    return once


def _check_stretch(
    trail: Trail,
    stretch: Stretch,
    stored: Offsets,
    swept: Mapping[str, int],
    findings: list[Finding],
) -> None:
    first, last = np.searchsorted(stored, [stretch.start, stretch.end])
    inside = stored[first:last]
    for gap in stretch.gaps:
        in_gap = inside[(inside >= gap.start) & (inside < gap.end)]
        if len(in_gap):
            findings.append(_finding(trail, "offset-in-gap", int(in_gap[0]), len(in_gap)))
    said = stretch.rows + stretch.not_stored
    missing = stretch.rows - _swept(stretch, swept) - len(inside)
    if said != stretch.due or missing:
        count = abs(missing) or abs(stretch.due - said)
        offset = _first_absent(stretch, inside)
        findings.append(_finding(trail, "offset-unaccounted", offset, count))


def _first_absent(stretch: Stretch, inside: Offsets) -> int:
    """The first offset that is neither stored nor in a gap: where to start looking."""
    absent = np.setdiff1d(np.arange(stretch.start, stretch.end), inside)
    for gap in stretch.gaps:
        absent = absent[(absent < gap.start) | (absent >= gap.end)]
    return int(absent[0]) if len(absent) else stretch.start


def _finding(trail: Trail, code: str, offset: int, count: int) -> Finding:
    return Finding(trail.topic, trail.partition, offset, code, count=count)
