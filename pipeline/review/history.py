"""Which rulesets wrote a lake, where and when, as its commit log says."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.errors import LakeError, UsageError
from pipeline.lake.documents import load_ruleset_document, stored_rulesets
from pipeline.lake.entries import Stretch
from pipeline.lake.history import read_histories
from pipeline.lake.store import Store
from pipeline.lake.stretches import stretches
from redactors import parse_document


@dataclass(frozen=True, slots=True)
class Written:
    """What a ruleset wrote of one partition."""

    topic: str
    partition: int
    stretch: Stretch


@dataclass(frozen=True, slots=True)
class Version:
    """A ruleset that a lake knows, and what it wrote; oldest first.

    `name` and `version` are its own words for itself; `rules` counts its rules and fields.  `kept`
    says whether its document stands in the lake: these three are empty if not.
    """

    digest: str
    name: str
    version: str
    rules: int
    kept: bool
    written: tuple[Written, ...]

    @property
    def rows(self) -> int:
        """Events and dead letters that were written under it."""
        return sum(each.stretch.rows for each in self.written)

    @property
    def first_us(self) -> int:
        """When the first was, in epoch microseconds; 0: it wrote none, or nobody can say."""
        return min((each.stretch.first_us for each in self.written), default=0)

    @property
    def last_us(self) -> int:
        """When the last was; 0 as for the first."""
        return max((each.stretch.last_us for each in self.written), default=0)


def versions(store: Store) -> list[Version]:
    """Every ruleset of the lake by when it first wrote; those that never did stand last."""
    written: dict[str, list[Written]] = defaultdict(list)
    for history in read_histories(store):
        for stretch in stretches(history):
            place = Written(history.topic, history.partition, stretch)
            written[stretch.ruleset].append(place)
    for digest in stored_rulesets(store):
        written.setdefault(digest, [])
    found = [_version(store, digest, places) for digest, places in written.items()]
    return sorted(found, key=lambda each: (not each.written, each.first_us, each.digest))


def told(found: Sequence[Version]) -> Iterator[str]:
    """Lines for a person: each ruleset, and below it what it wrote; times in UTC."""
    for version in found:
        yield f"{version.digest or 'unknown'}  {_named(version)}"
        for each in version.written:
            stretch = each.stretch
            yield (
                f"  {each.topic} {each.partition} [{stretch.start}, {stretch.end}): "
                f"{stretch.rows:,} rows in {stretch.commits:,} commits{_when(stretch)}"
            )
        if not version.written:
            yield "  nothing"


def _named(version: Version) -> str:
    if not version.digest:
        return "the log was cut before it said which rulesets wrote"
    return f"{version.name} {version.version}" if version.kept else "its text is not kept"


def _when(stretch: Stretch) -> str:
    if not stretch.first_us:
        return ""
    first, last = (
        f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"
        for at_us in (stretch.first_us, stretch.last_us)
    )
    return f", {first}" if first == last else f", {first} to {last}"


def document(store: Store, digest: str) -> bytes:
    """The canonical text of the ruleset whose digest starts so."""
    found = [each for each in stored_rulesets(store) if each.startswith(digest)]
    if len(found) != 1:
        many = "several rulesets" if found else "no ruleset"
        raise UsageError(
            f"the lake keeps {many} with a digest that starts with {digest}",
            code="no-such-ruleset",
            hint="redactory rules history LAKE lists them",
        )
    return load_ruleset_document(store, found[0])


def _version(store: Store, digest: str, written: list[Written]) -> Version:
    try:
        ruleset = parse_document(load_ruleset_document(store, digest)) if digest else None
    except LakeError as error:
        if error.code != "missing":
            raise
        ruleset = None
    if ruleset is None:
        return Version(digest, "", "", 0, False, tuple(written))
    count = len(ruleset.rules) + len(ruleset.fields) + len(ruleset.recognizers)
    return Version(digest, ruleset.name, ruleset.version, count, True, tuple(written))
