"""How long a row may stay: from a retention class to a deadline and a bucket.

A row's deadline is `captured_at` (where an importer set it, else `occurred_at`) plus its class's
lifetime.  Its bucket is the deadline rounded down to the class's hour or day in UTC: a bucket goes
at its start, so no row outlives its deadline and none goes earlier than one bucket before it.
The class is chosen by the first rule that matches, else by the event's own request, else it is the
default.
"""

import hashlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.errors import LogError, UsageError
from redactors.errors import RulesetError
from redactors.strict_yaml import read_yaml

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US

AHEAD_MAX_US: Final = DAY_US
"""How far a producer's clock may run ahead; from a later time we count from now instead."""

LIFETIME_MAX_US: Final = 36_525 * DAY_US

_BY_US: Final = "Value error, "  # how pydantic introduces the text of our own checks
_UNITS_US: Final = {"h": HOUR_US, "d": DAY_US}
_BUCKETS_US: Final = {"hour": HOUR_US, "day": DAY_US}

CountedFrom = Literal["occurred_at", "captured_at", "ingested_at", "epoch"]
"""The time a lifetime counts from.  The last two stand for a clock out of bounds: a time more than
`AHEAD_MAX_US` ahead counts from the ingest, one before 1970 from 1970."""


class Placement(NamedTuple):
    """Where a row goes and until when.

    `deadline_us` is epoch microseconds; `expires` names the bucket, "YYYY-MM-DDTHH" in UTC.
    `refused`: the bucket has expired already, the row must not be written.  `sealed`: its content
    must be stored encrypted.
    """

    retention_class: str
    deadline_us: int
    expires: str
    refused: bool
    counted_from: CountedFrom
    sealed: bool = False

    @property
    def clock_bounded(self) -> bool:
        """Whether a bound was used in place of the event's own time."""
        return self.counted_from in ("ingested_at", "epoch")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Lifetime = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}[hd]$")]
"""A number of hours or days: `72h`, `30d`."""

_Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]


class RetentionClass(_Strict):
    """A named lifetime, the size of its buckets, and who may read its rows for what.

    `action`: a bucket's files are deleted, or (`seal-then-shred`) their content was encrypted from
    the start and the bucket's key is destroyed too.  `owner` answers for access.  Where `purposes`
    are given, whoever reads content must name one of them.
    """

    lifetime: Lifetime
    bucket: Literal["hour", "day"]
    action: Literal["delete", "seal-then-shred"] = "delete"
    owner: str | None = None
    purposes: _Words = ()

    @model_validator(mode="after")
    def _lifetime_in_bounds(self) -> "RetentionClass":
        if self.lifetime_us < self.bucket_us:
            raise ValueError("a lifetime shorter than its bucket would refuse every row")
        if self.lifetime_us > LIFETIME_MAX_US:
            raise ValueError("a lifetime is at most 100 years (36525d)")
        return self

    @cached_property
    def lifetime_us(self) -> int:
        return _parse_us(self.lifetime)

    @cached_property
    def bucket_us(self) -> int:
        return _BUCKETS_US[self.bucket]

    def expires_us(self, deadline_us: int) -> int:
        """When the bucket of a row with this deadline goes, epoch microseconds."""
        return deadline_us - deadline_us % self.bucket_us


ClassName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class ClassRule(_Strict):
    """Gives a class to the events that match every condition given, each a list of exact values.

    `subjects` are pseudonyms (`redactory retention subject` prints them): the policy's text is kept
    in the lake, where no person may be named.
    """

    retention_class: Annotated[ClassName, Field(alias="class")]
    kinds: _Words = ()
    producers: _Words = ()
    subjects: Annotated[
        tuple[Annotated[str, Field(pattern=r"^\[SUBJECT:[a-z0-9]+:[A-Z2-7]{16}\]$")], ...],
        Field(strict=False),
    ] = ()
    requested: _Words = ()

    @model_validator(mode="after")
    def _has_conditions(self) -> "ClassRule":
        if not (self.kinds or self.producers or self.subjects or self.requested):
            raise ValueError("a rule needs `kinds`, `producers`, `subjects` or `requested`")
        return self

    def matches(
        self, kind: str, producer: str, subjects: Collection[str], requested: str | None
    ) -> bool:
        """Whether an event meets every condition."""
        return (
            (not self.kinds or kind in self.kinds)
            and (not self.producers or producer in self.producers)
            and (not self.subjects or any(subject in self.subjects for subject in subjects))
            and (not self.requested or requested in self.requested)
        )


class Policy(_Strict):
    """The retention classes and the rules that choose one.

    `ceiling` is the longest lifetime that an event gets by asking for it; only a rule gives more.
    """

    default: ClassName
    classes: Annotated[Mapping[ClassName, RetentionClass], Field(min_length=1)]
    rules: Annotated[tuple[ClassRule, ...], Field(strict=False)] = ()
    ceiling: Lifetime | None = None

    @model_validator(mode="after")
    def _names_are_classes(self) -> "Policy":
        if self.default not in self.classes:
            raise ValueError("`default` must name one of `classes`")
        for rule in self.rules:
            if rule.retention_class not in self.classes:
                raise ValueError(f"a rule gives {rule.retention_class}, which `classes` has not")
        return self

    @cached_property
    def document(self) -> bytes:
        """Canonical JSON, as it is kept in the lake's log; `parse_policy` reads it."""
        # Without defaults, so that a field that comes later changes no digest.
        plain = self.model_dump(by_alias=True, exclude_defaults=True)
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `document`, hex."""
        return hashlib.sha256(self.document).hexdigest()

    def place(
        self,
        occurred_at_us: int,
        captured_at_us: int | None,
        requested_class: str | None,
        now_us: int,
        *,
        kind: str = "",
        producer: str = "",
        subjects: Collection[str] = (),
    ) -> Placement:
        """Class, deadline and bucket of a row; any integers will do as its times.

        `subjects` are pseudonyms.
        """
        name = self._choose(requested_class, kind, producer, subjects)
        chosen = self.classes[name]
        start_us, counted_from = _start(occurred_at_us, captured_at_us, now_us)
        deadline_us = start_us + chosen.lifetime_us
        expires_us = chosen.expires_us(deadline_us)
        return Placement(
            retention_class=name,
            deadline_us=deadline_us,
            expires=bucket_name(expires_us),
            refused=expires_us <= now_us,
            counted_from=counted_from,
            sealed=chosen.action == "seal-then-shred",
        )

    def _choose(
        self, requested: str | None, kind: str, producer: str, subjects: Collection[str]
    ) -> str:
        for rule in self.rules:
            if rule.matches(kind, producer, subjects, requested):
                return rule.retention_class
        if requested is not None and self._may_ask_for(requested):
            return requested
        return self.default

    def _may_ask_for(self, name: str) -> bool:
        asked = self.classes.get(name)
        if asked is None:
            return False
        return self.ceiling is None or asked.lifetime_us <= _parse_us(self.ceiling)


def _start(occurred_at_us: int, captured_at_us: int | None, now_us: int) -> tuple[int, CountedFrom]:
    claimed_us = occurred_at_us if captured_at_us is None else captured_at_us
    if claimed_us > now_us + AHEAD_MAX_US:
        return now_us, "ingested_at"
    if claimed_us < 0:
        return 0, "epoch"
    return claimed_us, "occurred_at" if captured_at_us is None else "captured_at"


def load_policy(path: Path | None = None) -> Policy:
    """The policy in a YAML file, or the built-in one; UsageError names the file and the line."""
    source = path or Path(__file__).with_name("retention.yaml")
    try:
        document = read_yaml(source)
    except RulesetError as error:
        raise _unusable(error) from None
    try:
        return Policy.model_validate(document.value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        steps = [step for step in first["loc"] if step != "[key]"]
        where = ".".join(map(str, steps)) or "policy"
        reason = first["msg"].removeprefix(_BY_US)
        raise _unusable(document.error(f"{where}: {reason}", *steps)) from None


def parse_policy(document: bytes) -> Policy:
    """The policy of a `Policy.document`, with the same digest; LogError if it is none."""
    try:
        return Policy.model_validate_json(document)
    except ValidationError:
        raise LogError(
            "a retention policy kept in the log cannot be read",
            code="policy-document",
            hint="was the lake written by a newer version?",
        ) from None


@lru_cache(maxsize=4096)
def bucket_name(expires_us: int) -> str:
    """The name of the bucket that goes at a time, epoch microseconds: "YYYY-MM-DDTHH", UTC."""
    return datetime.fromtimestamp(expires_us // 1_000_000, tz=UTC).strftime("%Y-%m-%dT%H")


def _parse_us(lifetime: str) -> int:
    return int(lifetime[:-1]) * _UNITS_US[lifetime[-1]]


def _unusable(error: RulesetError) -> UsageError:
    return UsageError(
        f"the retention policy cannot be used: {error}",
        code="policy",
        hint="it has `default` and `classes`, each with `lifetime` (30d, 72h) and `bucket`",
    )
