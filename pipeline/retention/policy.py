"""How long a row may stay: from a retention class to a deadline and a bucket.

A row's deadline is `captured_at` (where an importer set it, else `occurred_at`) plus its class's
lifetime.  Its bucket is the deadline rounded down to the class's hour or day in UTC: a bucket goes
at its start, so no row outlives its deadline and none goes earlier than one bucket before it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal

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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a row goes and until when.

    `deadline_us` is epoch microseconds; `expires` names the bucket, "YYYY-MM-DDTHH" in UTC.
    `refused`: the bucket has expired already, the row must not be written.  `clock_bounded`: the
    event's own time was too far ahead, or before 1970, and a bound was used in its place.
    """

    retention_class: str
    deadline_us: int
    expires: str
    refused: bool
    clock_bounded: bool = False


class RetentionClass(BaseModel):
    """A named lifetime, such as `30d` or `72h`, and the size of its buckets."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    lifetime: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,6}[hd]$")]
    bucket: Literal["hour", "day"]

    @model_validator(mode="after")
    def _lifetime_in_bounds(self) -> "RetentionClass":
        if self.lifetime_us < self.bucket_us:
            raise ValueError("a lifetime shorter than its bucket would refuse every row")
        if self.lifetime_us > LIFETIME_MAX_US:
            raise ValueError("a lifetime is at most 100 years (36525d)")
        return self

    @cached_property
    def lifetime_us(self) -> int:
        return int(self.lifetime[:-1]) * _UNITS_US[self.lifetime[-1]]

    @cached_property
    def bucket_us(self) -> int:
        return _BUCKETS_US[self.bucket]


ClassName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class Policy(BaseModel):
    """The retention classes; a row that asks for none of them gets the one named by `default`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    default: ClassName
    classes: Annotated[Mapping[ClassName, RetentionClass], Field(min_length=1)]

    @model_validator(mode="after")
    def _default_exists(self) -> "Policy":
        if self.default not in self.classes:
            raise ValueError("`default` must name one of `classes`")
        return self

    @cached_property
    def document(self) -> bytes:
        """Canonical JSON, as it is kept in the lake's log; `parse_policy` reads it."""
        return orjson.dumps(self.model_dump(), option=orjson.OPT_SORT_KEYS)

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
    ) -> Placement:
        """Class, deadline and bucket of a row; any integers will do as its times."""
        name = requested_class if requested_class is not None else self.default
        name = name if name in self.classes else self.default
        chosen = self.classes[name]
        claimed_us = occurred_at_us if captured_at_us is None else captured_at_us
        start_us = now_us if claimed_us > now_us + AHEAD_MAX_US else max(claimed_us, 0)
        deadline_us = start_us + chosen.lifetime_us
        expires_us = deadline_us - deadline_us % chosen.bucket_us
        return Placement(
            retention_class=name,
            deadline_us=deadline_us,
            expires=_bucket_name(expires_us),
            refused=expires_us <= now_us,
            clock_bounded=start_us != claimed_us,
        )


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
def _bucket_name(expires_us: int) -> str:
    return datetime.fromtimestamp(expires_us // 1_000_000, tz=UTC).strftime("%Y-%m-%dT%H")


def _unusable(error: RulesetError) -> UsageError:
    return UsageError(
        f"the retention policy cannot be used: {error}",
        code="policy",
        hint="it has `default` and `classes`, each with `lifetime` (30d, 72h) and `bucket`",
    )
