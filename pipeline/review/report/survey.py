"""What a lake says about rules: their hits over time, by field, and what they leave in clear.

Declarations are counted in every live event; values are looked at in a sample, spread over the
lake.  Nothing that is handed on holds a value, but for the surroundings of masks (`Excerpt`).
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import parse_bucket
from pipeline.lake.live import Lake
from pipeline.lake.parquet import from_parquet
from pipeline.review.declarations import declarations
from pipeline.review.report.shapes import MASKED, shape
from redactors import Ruleset
from redactors.compiled import exact_pattern
from redactors.fields import Roles
from redactors.ruleset import Allow
from redactors.scopes import Scopes

SAMPLE_FILES: Final = 24
SAMPLE_EVENTS: Final = 6_000
"""Events of which the values are looked at, spread over so many files."""

EXCERPT_FILES: Final = 4
EXCERPTS_A_RULE: Final = 2
CONTEXT: Final = 60
"""Code points that are shown on either side of a mask."""

MIN_TIMES: Final = 3
_NAME: Final = re.compile(r"(?!.*[0-9]{4})[A-Za-z_][A-Za-z0-9_.-]{0,47}")
"""Names of fields that are shown: those that come more than once and look like a programmer's.  An
object's keys may be data too."""


class Hit(NamedTuple):
    """Declarations of one sort that were written on one day."""

    rule: str
    label: str
    name: str
    day: date


@dataclass(slots=True)
class Coverage:
    """Values of the sample: masked, kept by a scope, allowed, and examined without a finding."""

    events: int = 0
    masked: int = 0
    kept: int = 0
    allowed: int = 0
    clear: int = 0
    ruled: int = 0
    unruled: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    other_names: int = 0

    @property
    def values(self) -> int:
        """All of them."""
        return self.masked + self.kept + self.allowed + self.clear


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A mask in its surroundings: stored text, in which everything that a rule finds is masked."""

    rule: str
    path: str
    before: str
    mask: str
    after: str


@dataclass(slots=True)
class Survey:
    """What was found; `met` says of each allow-entry whether anything stored meets it."""

    events: int = 0
    sealed_files: int = 0
    hits: Counter[Hit] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    met: dict[int, bool] = field(default_factory=dict)
    excerpts: dict[str, list[Excerpt]] = field(default_factory=lambda: defaultdict(list))
    excerpt_files: set[str] = field(default_factory=set)


def survey(lake: Lake, ruleset: Ruleset, progress: Callable[[int, int], None]) -> Survey:
    """Looks at the events of a lake; sealed files are only counted."""
    found = Survey()
    files = [file for file in lake.files["events"] if not file.sealed]
    found.sealed_files = len(lake.files["events"]) - len(files)
    found.events = sum(file.rows for file in files)
    found.met = dict.fromkeys(range(len(ruleset.allow)), False)
    sampled = _spread(files, SAMPLE_FILES)
    longest = sorted(files, key=_expires, reverse=True)[:EXCERPT_FILES]
    looker = _Values(ruleset, found.coverage)
    for number, file in enumerate(files, 1):
        needs_bodies = file in sampled or file in longest or not all(found.met.values())
        columns = ("redactions", "ingested_at", *(("body",) if needs_bodies else ()))
        rows = from_parquet(lake.store.get(file.path), columns)
        _count(found.hits, rows)
        if needs_bodies:
            _meet(found.met, ruleset.allow, rows["body"])
        if file in sampled:
            step = max(1, file.rows * len(sampled) // SAMPLE_EVENTS)
            for row in rows.take(pa.array(range(0, rows.num_rows, step))).to_pylist():
                looker.take(row)
        if file in longest:
            found.excerpt_files.add(file.path)
            _excerpt(found.excerpts, rows)
        progress(number, len(files))
    return found


def _spread(files: Sequence[FileEntry], count: int) -> list[FileEntry]:
    step = max(1, -(-len(files) // count))
    return list(files[::step])


def _expires(file: FileEntry) -> str:
    bucket = parse_bucket(file.path)
    return bucket.expires if bucket is not None else ""


def _count(hits: Counter[Hit], rows: pa.Table) -> None:
    made = declarations(rows, "ingested_at")
    day = made["ingested_at"].cast(pa.timestamp("us")).cast(pa.date32())
    made = made.append_column("day", day)
    keys = ["rule", "label", "name", "day"]
    for row in made.group_by(keys).aggregate([("path", "count")]).to_pylist():
        hits[Hit(*(row[key] for key in keys))] += row["path_count"]


def _meet(met: dict[int, bool], allow: Sequence[Allow], bodies: "pa.ChunkedArray[Any]") -> None:
    """Notes which of the allow-entries that were not met yet are."""
    wanted = {at: _pattern(allow[at]) for at, known in met.items() if not known}
    if not wanted:
        return
    any_of = "|".join(f"(?:{pattern})" for pattern in wanted.values())
    near = bodies.filter(pc.match_substring_regex(bodies, any_of))
    if len(near):
        for at, pattern in wanted.items():
            met[at] = bool(pc.match_substring_regex(near, pattern).to_numpy().any())


def _pattern(entry: Allow) -> str:
    if entry.pattern is not None:
        return entry.pattern
    # As it stands in JSON.
    return re.escape(json.dumps(entry.value, ensure_ascii=False)[1:-1])


class _Values:
    """Looks at the values of sampled bodies."""

    def __init__(self, ruleset: Ruleset, coverage: Coverage) -> None:
        self._coverage = coverage
        self._roles = Roles(ruleset.in_mode("act").fields, lambda name: False)
        self._kept = Scopes(scope for keep in ruleset.keep for scope in keep.scope)
        self._allowed = {entry.value for entry in ruleset.allow if entry.value is not None}
        self._patterns = [exact_pattern(e.pattern, "allow") for e in ruleset.allow if e.pattern]

    def take(self, row: Mapping[str, Any]) -> None:
        """One event (body, redactions)."""
        coverage = self._coverage
        coverage.events += 1
        masked = {each["path"] for each in row["redactions"] or ()}
        try:
            values = list(_leaves(json.loads(row["body"])))
        except (ValueError, RecursionError):
            return
        for path, name, value in values:
            if path in masked:
                coverage.masked += 1
            elif self._kept and self._kept.cover(path):
                coverage.kept += 1
            elif isinstance(value, str) and self._is_allowed(value):
                coverage.allowed += 1
            else:
                coverage.clear += 1
            self._take_name(name, MASKED if path in masked else shape(value))

    def _is_allowed(self, text: str) -> bool:
        data = text.encode("utf-8", "surrogatepass")
        return text in self._allowed or any(each.fullmatch(data) for each in self._patterns)

    def _take_name(self, name: str, looks: str) -> None:
        role = self._roles[name]
        if role is not None and role.rule is not None:
            self._coverage.ruled += 1
        elif _NAME.fullmatch(name):
            self._coverage.unruled[name][looks] += 1
        else:
            self._coverage.other_names += 1


def _leaves(document: Any) -> Iterator[tuple[str, str, Any]]:
    """(pointer, name, value) of each value; items of a list go by the list's name."""
    open_values: list[tuple[str, str, Any]] = [("", "", document)]
    while open_values:
        path, name, value = open_values.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                step = key.replace("~", "~0").replace("/", "~1")
                open_values.append((f"{path}/{step}", key, item))
        elif isinstance(value, list):
            open_values += ((f"{path}/{at}", name, item) for at, item in enumerate(value))
        elif value not in ("", None):
            yield path, name, value


def _excerpt(excerpts: dict[str, list[Excerpt]], rows: pa.Table) -> None:
    """Takes masks of rules of which there are too few yet, with what stands around them."""
    made = declarations(rows)
    rules = {str(rule) for rule in made["rule"].unique().to_pylist()}
    wanted = {rule for rule in rules if len(excerpts.get(rule, ())) < EXCERPTS_A_RULE}
    if not wanted:
        return
    has_any = pc.greater(pc.list_value_length(rows["redactions"]), pa.scalar(0))
    for row in rows.filter(has_any).to_pylist():
        here = [each for each in row["redactions"] if each["rule"] in wanted]
        here = [each for each in here if not each["layers"] and each["path"].startswith("/")]
        if not here:
            continue
        texts = {path: value for path, _, value in _leaves(json.loads(row["body"]))}
        for each in here:
            text = texts.get(each["path"])
            if isinstance(text, str) and len(excerpts[each["rule"]]) < EXCERPTS_A_RULE:
                excerpts[each["rule"]].append(_around(each, text))
        wanted -= {rule for rule in wanted if len(excerpts.get(rule, ())) >= EXCERPTS_A_RULE}
        if not wanted:
            return


def _around(each: Mapping[str, Any], text: str) -> Excerpt:
    start, end = each["span_start"], each["span_end"]
    start, end = (0, len(text)) if start is None or end is None else (start, end)
    return Excerpt(
        each["rule"],
        each["path"],
        text[max(0, start - CONTEXT) : start],
        text[start:end],
        text[end : end + CONTEXT],
    )
