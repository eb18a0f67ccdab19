"""The one way to have a worker process go on under another ruleset."""

from dataclasses import dataclass


@dataclass(slots=True)
class Switch:
    """`ruleset` is the digest of the ruleset to go on under, which the lake keeps; None: go on."""

    ruleset: str | None = None


SWITCH = Switch()
"""Set by what listens to the supervisor; readers look at it between messages."""
