"""Which rulesets wrote a partition, in the order of its commits."""

from collections.abc import Iterator
from dataclasses import replace

from pipeline.lake.entries import Checkpoint, Commit, Stretch
from pipeline.lake.history import History


def stretches(history: History) -> tuple[Stretch, ...]:
    """The stretches of a partition's whole history: no two successive ones have one ruleset."""
    joined: list[Stretch] = []
    for each in _each(history):
        if joined and joined[-1].ruleset == each.ruleset:
            joined[-1] = _together(joined[-1], each)
        else:
            joined.append(each)
    return tuple(joined)


def _each(history: History) -> Iterator[Stretch]:
    if history.checkpoint:
        yield from history.checkpoint.stretches or (_untold(history.checkpoint),)
    for commit in history.commits:
        if commit.superseded is None:  # else nothing was written under it
            yield _stretch(commit)


def _stretch(commit: Commit) -> Stretch:
    rows = commit.counts.get("events", 0) + commit.counts.get("dead_letters", 0)
    now_us = commit.now_us
    return Stretch(commit.ruleset, commit.start, commit.end, 1, rows, now_us, now_us)


def _untold(checkpoint: Checkpoint) -> Stretch:
    return Stretch("", checkpoint.start, checkpoint.end, checkpoint.number, checkpoint.rows, 0, 0)


def _together(first: Stretch, then: Stretch) -> Stretch:
    return replace(
        first,
        end=then.end,
        commits=first.commits + then.commits,
        rows=first.rows + then.rows,
        last_us=then.last_us,
    )
