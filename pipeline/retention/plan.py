"""What a sweep would do at an instant: pure, from what was found in the lake."""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.lake.layout import Bucket
from pipeline.retention.copies import Copy
from pipeline.retention.holds import Hold
from pipeline.retention.policy import bucket_name


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """What lies in a bucket: live `files` with `rows` that no hold keeps, and `held_rows`.

    `strays` counts files that are no part of the lake; `runs` are the ids of the runs concerned.
    """

    bucket: Bucket
    files: int
    strays: int
    size_bytes: int
    rows: int
    held_rows: int
    runs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UnfinishedFile:
    """A file below `_tmp/` that holds rows of the bucket `expires`."""

    key: str
    size_bytes: int
    expires_us: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What a survey found."""

    buckets: tuple[BucketFacts, ...] = ()
    unfinished: tuple[UnfinishedFile, ...] = ()
    holds: tuple[Hold, ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes at `now_us` (epoch microseconds), and what stays by a hold.

    `holds` are in force; those in `to_review` have reached their review date.
    """

    now_us: int
    buckets: tuple[BucketFacts, ...]
    held: tuple[BucketFacts, ...]
    unfinished: tuple[UnfinishedFile, ...]
    holds: tuple[Hold, ...]
    to_review: tuple[Hold, ...]
    copies: tuple[Copy, ...]

    @property
    def files(self) -> int:
        return sum(each.files + each.strays for each in self.buckets) + len(self.unfinished)

    @property
    def size_bytes(self) -> int:
        return sum(bucket.size_bytes for bucket in self.buckets) + sum(
            file.size_bytes for file in self.unfinished
        )

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.buckets)

    @property
    def runs(self) -> int:
        """How many runs lose rows."""
        return len(frozenset[str]().union(*(each.runs for each in self.buckets)))

    @property
    def held_rows(self) -> int:
        return sum(each.held_rows for each in self.held)


def plan_retention(facts: Facts, now_us: int) -> Plan:
    """The plan for an instant: every bucket that has ended, but for what is held."""
    now = bucket_name(now_us)
    ended = [each for each in facts.buckets if each.bucket.expires <= now]
    return Plan(
        now_us,
        _sorted(each for each in ended if each.files or each.strays),
        _sorted(each for each in ended if each.held_rows),
        tuple(file for file in facts.unfinished if file.expires_us <= now_us),
        facts.holds,
        tuple(hold for hold in facts.holds if hold.review_on <= now[:10]),
        tuple(copy for copy in facts.copies if copy.deadline_us <= now_us),
    )


def _sorted(buckets: Iterable[BucketFacts]) -> tuple[BucketFacts, ...]:
    def place(each: BucketFacts) -> tuple[str, str, str]:
        return each.bucket.table, each.bucket.retention_class, each.bucket.expires

    return tuple(sorted(buckets, key=place))
