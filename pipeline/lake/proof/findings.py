"""What a verification found: data, apart from how it is printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["violation", "advisory"]

CODES: Final[Mapping[str, tuple[Severity, str]]] = {
    "entry-missing": ("violation", "a log entry is missing between others"),
    "entry-bad": ("violation", "a log entry cannot be read"),
    "entry-unexpected": ("violation", "something stands in the log that is no entry"),
    "chain-broken": ("violation", "a log entry does not name the digest of the one before it"),
    "intent-differs": ("violation", "a commit differs from its intent"),
    "range-broken": ("violation", "a commit does not start where the one before it ended"),
    "document-missing": ("violation", "the text of a ruleset or policy is not kept in the log"),
    "file-missing": ("violation", "a committed file is not there"),
    "file-changed": ("violation", "a file's bytes are not those that were committed"),
    "file-unreadable": ("violation", "a file is no valid Parquet"),
    "file-outside": ("violation", "a file lies in a table but is not part of the lake"),
    "schema-differs": ("violation", "a file has not the declared columns"),
    "rows-differ": ("violation", "a file has not the committed number of rows"),
    "code-unknown": ("violation", "a dead letter gives a reason that is not in the closed list"),
    "row-misplaced": ("violation", "a row lies in a file it does not belong to"),
    "deadline-differs": ("violation", "a row's deadline is not in its file's bucket"),
    "offset-twice": ("violation", "an offset is stored more than once"),
    "offset-in-gap": ("violation", "an offset is stored although its gap was declared"),
    "offset-unaccounted": ("violation", "an offset is neither stored nor refused nor in a gap"),
    "rewrite-differs": ("violation", "a rewrite lost or made rows"),
    "rule-finds": ("violation", "the rules a row was written under still find something in it"),
    "state-bad": ("violation", "the state of the open runs cannot be read back"),
    "topic-differs": ("violation", "a row differs from its record in the topic"),
    "receipt-behind": ("violation", "a log has gone back behind the receipt"),
    "receipt-missing": ("violation", "what the receipt names is gone, and no entry says why"),
    "receipt-differs": ("violation", "what the receipt names is not what it was"),
    "newer-rule-finds": ("advisory", "rules newer than the row find something in it"),
    "rules-unusable": ("advisory", "rows could not be checked against the rules they name"),
}
"""Every finding there can be: its severity and what it means."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is not as it should be; `offset` is the first it concerns, if any.

    `count` is how many rows or offsets it concerns; `detail` names rules, numbers and paths only.
    """

    topic: str = ""
    partition: int = -1
    offset: int = -1
    code: str = ""
    path: str = ""
    detail: str = ""
    count: int = 1

    @property
    def severity(self) -> Severity:
        return CODES[self.code][0]


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """How the offsets `[start, end)` of one partition are accounted for."""

    topic: str
    partition: int
    start: int
    end: int
    commits: int
    stored: int
    refused: int
    expired: int
    removed: int
    in_gaps: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A log entry: its number, the offsets `[start, end)` it speaks of, its SHA-256 (hex)."""

    number: int
    start: int
    end: int
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where the log of a partition stands.

    `start` is the first offset it covers.  Right after the log was cut, the offsets of `commit`
    are those of the checkpoint, which says no more.
    """

    topic: str
    partition: int
    start: int
    commit: Mark
    checkpoint: Mark | None


@dataclass(frozen=True, slots=True)
class TableCount:
    """The live files of a table and the rows that the log says they have."""

    files: int
    rows: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A lake at one moment.

    `files` are the live ones by path, `rewrites` the finished rewrites by key, `rulesets` the
    texts that the log keeps, by the ruleset's digest; each with the SHA-256 (hex) of its bytes.
    """

    heads: tuple[Head, ...]
    tables: Mapping[str, TableCount]
    files: Mapping[str, str]
    rewrites: Mapping[str, str]
    rulesets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict, and where the lake stood.

    `pending` files belong to slices that were being written meanwhile.
    """

    partitions: tuple[PartitionReport, ...]
    findings: tuple[Finding, ...]
    files: int
    rows: int
    standing: Standing
    pending: tuple[str, ...] = ()
    compared: int = 0

    @property
    def violations(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.severity == "violation")

    @property
    def advisories(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.severity == "advisory")
