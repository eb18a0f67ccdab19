"""The rules of a lake as one HTML file for whoever answers for them: searchable, offline, escaped.

`page.html` says how it looks.  Its one script only hides rows while somebody searches and opens
everything for the printer; the page's policy lets no other run, and the page is whole without it.
"""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from typing import Final

from pipeline.records.page import template
from pipeline.review.report.review import Review
from pipeline.review.report.survey import MIN_TIMES, Coverage, Excerpt, Survey
from redactors import Ruleset
from redactors.ruleset import FieldRule, Recognizer, Rule

BARS: Final = 30
"""Bars of a chart over time at most."""

FEWEST_DAYS: Final = timedelta(days=13)
"""A chart looks back at least so far."""

SHOWN_FIELDS: Final = 60
"""Fields without a rule that are listed, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Counts over time: (height in percent, what a bar says), and the whole in words."""

    bars: tuple[tuple[int, str], ...]
    words: str


Entry = Rule | FieldRule | Recognizer


@dataclass(frozen=True, slots=True)
class Line:
    """A rule with its hits; `facts` are names with what there is to say."""

    entry: Entry
    sort: str
    hits: int
    by_memory: int
    chart: Chart | None
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    excerpts: tuple[Excerpt, ...]


def page(review: Review) -> str:
    """The page of a review."""
    ruleset, survey = review.ruleset, review.survey
    script = (files(__package__) / "search.js").read_text("utf-8")
    lines, unruled = list(_lines(ruleset, survey)), _unruled(survey.coverage)
    allow = [(entry, survey.met[at]) for at, entry in enumerate(ruleset.allow)]
    return template(__package__, "page.html").render(
        review=review,
        ruleset=ruleset,
        survey=survey,
        lines=lines,
        groups=[(sort, *_parted(lines, sort)) for sort in _SORTS],
        silent=sum(not line.hits for line in lines),
        others=sorted(_others(ruleset, survey).items(), key=lambda each: -each[1]),
        by_field=_by_field(survey),
        by_label=Counter(_by(survey, "label")).most_common(),
        shares=_shares(survey.coverage),
        unruled=unruled[:SHOWN_FIELDS],
        unruled_names=len(unruled),
        allow=allow,
        unmet=sum(not met for _, met in allow),
        whole=_chart(_by_day(survey), _days(survey)),
        inline=_SHORT,
        written=_time(review.now_us),
        time=_time,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


_SHORT: Final = ("one of the words", "names", "but not", "in")
"""Facts that are lists of words, to stand side by side."""

_SORTS: Final = ("pattern", "field", "recogniser")


def _lines(ruleset: Ruleset, survey: Survey) -> Iterator[Line]:
    hits: Counter[str] = Counter(_by(survey, "rule"))
    days = _days(survey)
    by_day: dict[str, Counter[date]] = defaultdict(Counter)
    for hit, count in survey.hits.items():
        by_day[hit.rule.removeprefix("memory:")][hit.day] += count
    for sort, entry in _entries(ruleset):
        memory = hits[f"memory:{entry.id}"]
        total = hits[entry.id] + memory
        chart = _chart(by_day[entry.id], days) if total else None
        found = tuple(survey.excerpts.get(entry.id, ()))
        yield Line(entry, sort, total, memory, chart, tuple(_facts(entry)), found)


def _parted(lines: Sequence[Line], sort: str) -> tuple[list[Line], list[Line]]:
    """The rules of a sort that masked something, the most frequent first, and the others."""
    mine = sorted((line for line in lines if line.sort == sort), key=lambda line: -line.hits)
    return [line for line in mine if line.hits], [line for line in mine if not line.hits]


def _entries(ruleset: Ruleset) -> Iterator[tuple[str, Entry]]:
    yield from (("pattern", entry) for entry in ruleset.rules)
    yield from (("field", entry) for entry in ruleset.fields)
    yield from (("recogniser", entry) for entry in ruleset.recognizers)


def _facts(entry: Entry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """How it finds, and its examples: templates, so that no key stands here."""
    if isinstance(entry, Rule):
        yield "pattern", (entry.pattern,)
        yield "one of the words", entry.keywords
        yield "unless the match has", (entry.unless,) if entry.unless else ()
        yield "entropy of at least", (f"{entry.min_entropy} bits",) if entry.min_entropy else ()
    elif isinstance(entry, FieldRule):
        yield "names", entry.names
        yield "but not", entry.unless
    else:
        yield "entity", (f"{entry.presidio}, score {entry.min_score} or more",)
        yield "in", entry.scope
    if not isinstance(entry, Recognizer):
        yield "checked by", (entry.validator,) if entry.validator else ()
        yield "matches", entry.matches
        yield "rejects", entry.rejects


def _by(survey: Survey, key: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for hit, count in survey.hits.items():
        counts[getattr(hit, key)] += count
    return counts


def _others(ruleset: Ruleset, survey: Survey) -> dict[str, int]:
    """Hits of what is no rule of this ruleset: the engine's own, and those of other rulesets."""
    known = {entry.id for _, entry in _entries(ruleset)}
    hits = _by(survey, "rule")
    return {rule: n for rule, n in hits.items() if rule.removeprefix("memory:") not in known}


def _by_field(survey: Survey) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """(field, count, rules with their counts) of what is masked most."""
    rules: dict[str, Counter[str]] = defaultdict(Counter)
    for hit, count in survey.hits.items():
        rules[hit.name][hit.rule] += count
    found = [(name, each.total(), each.most_common(4)) for name, each in rules.items()]
    return sorted(found, key=lambda each: (-each[1], each[0]))[:SHOWN_FIELDS]


def _shares(coverage: Coverage) -> list[tuple[str, str, int, float]]:
    """(sign, words, count, percent) of the values that were looked at."""
    whole = coverage.values or 1
    parts = (
        ("ok", "examined, and nothing was found", coverage.clear),
        ("mark", "masked", coverage.masked),
        ("soft", "left alone: a scope keeps them", coverage.kept),
        ("open", "left alone: an allowance says so", coverage.allowed),
    )
    return [(sign, words, count, 100 * count / whole) for sign, words, count in parts]


def _unruled(coverage: Coverage) -> list[tuple[str, int, list[tuple[str, int]]]]:
    found = [
        (name, shapes.total(), shapes.most_common(3))
        for name, shapes in coverage.unruled.items()
        if shapes.total() >= MIN_TIMES
    ]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def _days(survey: Survey) -> tuple[date, date] | None:
    days = [hit.day for hit in survey.hits]
    return (min(*days, max(days) - FEWEST_DAYS), max(days)) if days else None


def _by_day(survey: Survey) -> Mapping[date, int]:
    counts: Counter[date] = Counter()
    for hit, count in survey.hits.items():
        counts[hit.day] += count
    return counts


def _chart(counts: Mapping[date, int], days: tuple[date, date] | None) -> Chart | None:
    """Bars of a day each, or of several where there are too many."""
    if days is None:
        return None
    first, last = days
    width = -(-((last - first).days + 1) // BARS)
    bins = [0] * (-(-((last - first).days + 1) // width))
    for day, count in counts.items():
        bins[(day - first).days // width] += count
    most = max(bins) or 1
    bars = []
    for at, count in enumerate(bins):
        start = first + timedelta(days=at * width)
        bars.append((round(100 * count / most), f"{start}: {count:,}"))
    seen = [day for day, count in counts.items() if count]
    span = f"{min(seen)} to {max(seen)}" if len(set(seen)) > 1 else f"{seen[0]}"
    return Chart(tuple(bars), f"{span}, at most {most:,} in {width} day{'s' * (width > 1)}")


def _time(value_us: int) -> str:
    return f"{datetime.fromtimestamp(value_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
