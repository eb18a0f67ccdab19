"""How a worker process tells its supervisor what it does: one JSON object a line on stdout."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline.errors import PipelineError
from pipeline.lake.entries import Commit


def tell(kind: str, **fields: Any) -> None:
    """Writes one message; `kind` is reading, commit, waiting, error or done."""
    sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def tell_reading(starts: Mapping[int, int]) -> None:
    """Tells the offset at which each partition is read on."""
    tell("reading", starts=[{"partition": p, "offset": at} for p, at in starts.items()])


def tell_commit(commit: Commit) -> Commit:
    """Tells a commit's counts and hands the commit on."""
    tell(
        "commit",
        topic=commit.topic,
        partition=commit.partition,
        number=commit.number,
        end=commit.end,
        now_us=commit.now_us,
        counts=dict(commit.counts),
        redactions=dict(commit.redactions),
        dead_letter_codes=dict(commit.dead_letter_codes),
        shadow={rule: found.count for rule, found in commit.shadow.items()},
        gaps=[[gap.start, gap.end, gap.reason] for gap in commit.gaps],
    )
    return commit


@contextmanager
def telling_errors() -> Iterator[None]:
    """Tells an error before a runner turns it into a text without type."""
    try:
        yield
    except PipelineError as error:
        tell_error(error)
        raise


def tell_error(error: BaseException) -> None:
    """Tells our own errors in their words; of others only the type: their text may be payload."""
    if isinstance(error, PipelineError):
        tell(
            "error",
            code=error.code,
            message=str(error),
            hint=error.hint,
            final=error.is_final,
            exit_code=error.exit_code,
        )
    else:
        tell(
            "error",
            code="worker-failed",
            message=f"a worker failed with {type(error).__name__}",
            hint="it is started again from the log; --debug shows where",
            final=False,
            exit_code=3,
        )
