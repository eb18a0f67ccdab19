"""What there is to show in a review of rules, gathered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.lake.live import Lake
from pipeline.review.diff import Difference, changes
from pipeline.review.history import Version, document, versions
from pipeline.review.report.survey import Survey, survey
from pipeline.review.shadow import Trial, trials
from redactors import Ruleset, parse_document, ruleset_digest


@dataclass(frozen=True, slots=True)
class Review:
    """What there is to show: the ruleset in question and its digest, what the lake says, the
    rulesets that wrote it, trials of rules in shadow, and what changed since the ruleset `since`
    (None: nobody asked)."""

    lake: str
    ruleset: Ruleset
    digest: str
    survey: Survey
    versions: Sequence[Version]
    trials: Sequence[Trial]
    since: str
    difference: Difference | None
    now_us: int


def review(
    lake: Lake,
    ruleset: Ruleset,
    since: str | None,
    now_us: int,
    progress: Callable[[int, int], None],
) -> Review:
    """The review of a ruleset over a lake; `since` is the start of a digest that the lake keeps.

    Raises `UsageError` if it keeps none, or several.
    """
    difference = None
    if since is not None:
        before = parse_document(document(lake.store, since))
        since = f"{before.name} {before.version}, {ruleset_digest(before)[:16]}"
        difference = changes(before, ruleset)
    return Review(
        lake.store.location,
        ruleset,
        ruleset_digest(ruleset),
        survey(lake, ruleset, progress),
        versions(lake.store),
        trials(lake.store),
        since or "",
        difference,
        now_us,
    )
