"""A part of a lake to prove: what was committed within a time, wherever its rows lie now."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pipeline.lake.entries import Commit, Rewrite
from pipeline.lake.proof.files import Places
from pipeline.lake.proof.trail import Trail


@dataclass(frozen=True, slots=True)
class Window:
    """The slices whose clock was read at `[from_us, until_us)`; None: no end on that side."""

    from_us: int | None = None
    until_us: int | None = None

    def of(self, trail: Trail) -> Trail:
        """The same log with the commits of the window alone.

        What lies below a checkpoint has lost its times: it belongs to the window unless a later
        commit came before it.
        """
        commits = [commit for commit in trail.commits if self._has(commit)]
        is_after_cut = any(self._is_before(commit) for commit in trail.commits)
        checkpoint = None if is_after_cut else trail.checkpoint
        return replace(trail, commits=commits, checkpoint=checkpoint)

    def _has(self, commit: Commit) -> bool:
        is_late = self.until_us is not None and commit.now_us >= self.until_us
        return not is_late and not self._is_before(commit)

    def _is_before(self, commit: Commit) -> bool:
        return self.from_us is not None and commit.now_us < self.from_us


def paths_of(trails: Iterable[Trail], rewrites: Iterable[Rewrite]) -> frozenset[str]:
    """The files of the commits, and all that rewrites made of these."""
    paths: set[str] = set()
    for trail in trails:
        paths |= {file.path for commit in trail.commits for file in commit.files}
        if trail.checkpoint is not None:
            paths |= {file.path for file in trail.checkpoint.files}
    rewrites, known = list(rewrites), -1
    while known != len(paths):  # a rewrite may come before the one it takes from
        known = len(paths)
        for rewrite in rewrites:
            if any(file.path in paths for file in rewrite.removed):
                paths |= {file.path for file in rewrite.added}
    return frozenset(paths)


def places_of(trail: Trail, stored: Places) -> Places:
    """Those of the `stored` places that the commits and the checkpoint of `trail` speak of."""
    spoken = [(commit.start, commit.end) for commit in trail.commits]
    if trail.checkpoint is not None:
        spoken.append((trail.checkpoint.start, trail.checkpoint.end))
    inside = np.zeros(stored.shape[1], np.bool_)
    for start, end in spoken:
        inside |= (stored[0] >= start) & (stored[0] < end)
    return stored[:, inside]
