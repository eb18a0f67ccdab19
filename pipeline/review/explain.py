"""Says why rules fired on a text or an event, or why not."""

from pathlib import Path

from pipeline.errors import UsageError
from pipeline.review.payloads import is_event
from redactors import load_or_create_keys, load_ruleset
from redactors.explaining import Explainer, Outcome


def explained(text: str, rules: Path | None, keys: Path | None, only: str | None) -> list[Outcome]:
    """What became of each candidate rule in `text`; an object or a list in JSON is an event."""
    explainer = Explainer(load_ruleset(rules), load_or_create_keys(keys)[0])
    try:
        return explainer.explain(text, is_json=is_event(text), only=only)
    except KeyError:
        raise UsageError(
            f"there is no rule {only}", code="no-such-rule", hint="redactory rules list"
        ) from None
