"""Why a message becomes a dead letter, and how many of them are too many."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from pipeline.errors import TooManyDeadLetters, UsageError
from redactors.errors import UNEXAMINABLE_CODES
from schemas import DECODE_CODES

NULL_KEY: Final = "null-key"
NOT_OTLP: Final = "not-otlp"

CODES: Final[Mapping[str, str]] = {
    **DECODE_CODES,
    NOT_OTLP: "the record is no export request with spans or logs, or one of these is none",
    NULL_KEY: "the message has no key: its run would be scattered over the partitions",
    **UNEXAMINABLE_CODES,
}
"""Every reason code there is, with what it means."""

WINDOW: Final = 1_000
"""Messages over which the rate is taken, or the last slice if it is larger."""

MIN_MESSAGES: Final = 100
"""Fewer say nothing about a topic."""


def check_code(code: str | None) -> str | None:
    """The code; raises `UsageError` if there is none such."""
    if code is None or code in CODES:
        return code
    raise UsageError(
        "no dead letter has this code",
        code="unknown-code",
        hint="`redactory deadletters codes` lists all",
    )


def listing_sql(code: str | None, last: int) -> str:
    """A query for the `last` dead letters, the latest first; only those with `code` if given."""
    check_code(code)
    where = f"WHERE code = '{code}'" if code else ""
    return (
        "SELECT kafka_topic, kafka_partition, kafka_offset, record_index, code, stage, "
        "length_bytes, ingested_at "
        f"FROM dead_letters {where} ORDER BY ingested_at DESC, kafka_topic, kafka_partition, "
        f"kafka_offset DESC, record_index DESC LIMIT {last}"
    )


class DeadLetterGuard:
    """Stops an ingest of which too large a part becomes dead letters.

    `max_rate` is the largest part allowed, from 0 to 1; 1 allows everything.
    """

    def __init__(self, max_rate: float) -> None:
        self._max_rate = max_rate
        self._slices: deque[tuple[int, int]] = deque()

    def check(self, messages: int, dead_letters: int) -> None:
        """Counts a slice before it is handed on; raises `TooManyDeadLetters`, and it is not."""
        self._slices.append((messages, dead_letters))
        while sum(count for count, _ in self._slices) - self._slices[0][0] >= WINDOW:
            self._slices.popleft()
        seen = sum(count for count, _ in self._slices)
        dead = sum(count for _, count in self._slices)
        if seen >= MIN_MESSAGES and dead > self._max_rate * seen:
            raise TooManyDeadLetters(
                f"{dead:,} of the last {seen:,} messages are no events that can be examined",
                code="too-many-dead-letters",
                hint="look at their codes with `redactory deadletters list`; nothing of this slice "
                "was written; --max-dead-letter-rate 1 stores them all",
            )
