"""The matching policy: what makes a request in a replay the one that was recorded.

It is recorded with the run, and a replay checks that it is the same.
"""

from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import UsageError

HINT: Final = "see docs/replay.md for what a matching policy may say"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """How requests of one boundary and name are compared; fields are JSON pointers into the request
    (`/arguments/at`), in which `*` stands for any one step.

    `volatile` fields are never compared.  `free` fields may be filled otherwise by a hybrid replay:
    what came back is then still taken for the answer.
    """

    volatile: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


class Http(_Strict):
    """What is kept of an HTTP request, and so compared."""

    url: tuple[str, ...] = ("scheme", "host", "path", "query")
    headers: tuple[str, ...] = ("content-type", "anthropic-version")
    body: bool = True


class MatchingPolicy(_Strict):
    """`rules` by boundary and name (`tool:get_order`, `model:*`); the first that fits counts.

    `by_label`: masks whose key is gone match by their label alone.
    """

    version: int = Field(default=1, ge=1, le=1)
    rules: dict[str, Rule] = {}
    http: Http = Http()
    by_label: bool = False

    def rule(self, boundary: str, name: str) -> Rule:
        """The rule for a call."""
        asked = f"{boundary}:{name}"
        return next((r for key, r in self.rules.items() if fnmatchcase(asked, key)), _PLAIN)

    def text(self) -> str:
        """The policy as JSON, equal for equal policies."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def parse(cls, text: str) -> Self:
        """A policy from YAML or JSON; raises UsageError."""
        try:
            return cls.model_validate(_read(text))
        except (yaml.YAMLError, ValidationError):
            raise UsageError(
                "this is no matching policy", code="matching-policy", hint=HINT
            ) from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """The policy in a file; raises UsageError."""
        return cls.parse(path.read_text("utf-8"))


_PLAIN: Final = Rule()


@lru_cache(maxsize=16)
def _read(text: str) -> Any:
    """Every run of a batch brings its policy, and YAML is slow to read."""
    return yaml.safe_load(text) or {}
