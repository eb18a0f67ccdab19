"""Which rulesets wrote a lake, where and when, as its commit log says."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.errors import LakeError, UsageError
from pipeline.lake.documents import load_ruleset_document, stored_rulesets
from pipeline.lake.entries import Rewrite, Stretch
from pipeline.lake.history import read_histories, read_rewrites
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
class Rewritten:
    """Rows of a bucket that were masked again under a ruleset, those of `before` until then."""

    table: str
    retention_class: str
    expires: str
    rows: int
    at_us: int
    before: tuple[str, ...]


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
    rewritten: tuple[Rewritten, ...]

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
    rewritten: dict[str, list[Rewritten]] = defaultdict(list)
    for rewrite in read_rewrites(store):
        if rewrite.ruleset:
            rewritten[rewrite.ruleset].append(_rewritten(rewrite))
    found = [
        _version(store, digest, written.get(digest, []), rewritten.get(digest, []))
        for digest in {*written, *rewritten, *stored_rulesets(store)}
    ]
    return sorted(found, key=lambda each: (not each.written, each.first_us, each.digest))


def _rewritten(rewrite: Rewrite) -> Rewritten:
    return Rewritten(
        rewrite.table,
        rewrite.retention_class,
        rewrite.expires,
        sum(file.rows for file in rewrite.added),
        rewrite.now_us,
        rewrite.rulesets_before,
    )


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
        for again in version.rewritten:
            bucket = f"{again.table} {again.retention_class} {again.expires}"
            before = ", ".join(digest[:12] for digest in again.before)
            yield f"  {bucket}: {again.rows:,} rows again, before {before}, {_time(again.at_us)}"
        if not version.written and not version.rewritten:
            yield "  nothing"


def _named(version: Version) -> str:
    if not version.digest:
        return "the log was cut before it said which rulesets wrote"
    return f"{version.name} {version.version}" if version.kept else "its text is not kept"


def _when(stretch: Stretch) -> str:
    if not stretch.first_us:
        return ""
    first, last = _time(stretch.first_us), _time(stretch.last_us)
    return f", {first}" if first == last else f", {first} to {last}"


def _time(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


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


def _version(
    store: Store, digest: str, written: list[Written], rewritten: list[Rewritten]
) -> Version:
    try:
        ruleset = parse_document(load_ruleset_document(store, digest)) if digest else None
    except LakeError as error:
        if error.code != "missing":
            raise
        ruleset = None
    if ruleset is None:
        return Version(digest, "", "", 0, False, tuple(written), tuple(rewritten))
    name, version, count = ruleset.name, ruleset.version, len(ruleset.declared)
    return Version(digest, name, version, count, True, tuple(written), tuple(rewritten))
