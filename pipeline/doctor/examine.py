"""The whole examination: what an ingest with these settings would meet, in the order it would."""

from collections.abc import Callable

from pipeline.config import IngestConfig
from pipeline.doctor import here, lake, topic
from pipeline.doctor.findings import Finding, attempt, has_failed
from pipeline.doctor.registry import registry


def examine(config: IngestConfig, workers: int, now_s: Callable[[], float]) -> list[Finding]:
    """What was found; where `bootstrap`, `topic` or `lake` is "", or no registry is named, what
    concerns it is left out.

    Nothing is made, neither a key file nor a lake.  `now_s` gives epoch seconds.
    """
    found = attempt("versions", here.versions)
    found += attempt("keys", lambda: here.keys(config, now_s()))
    found += attempt("rules", lambda: here.rules(config))
    found += attempt("policy", lambda: here.policy(config))
    if config.bootstrap:
        found += _at_the_broker(config, workers, now_s)
    if config.registry is not None:
        found += attempt("registry", lambda: registry(config))
    if config.lake:
        found += attempt("lake", lambda: lake.lake(config, now_s))
    if {("topic", "ok"), ("lake", "ok")} <= {(each.what, each.level) for each in found}:
        found += attempt("log", lambda: lake.log(config))
    return found


def _at_the_broker(config: IngestConfig, workers: int, now_s: Callable[[], float]) -> list[Finding]:
    """Stops where asking on would only give the same error again, a time-out later."""
    found = attempt("broker", lambda: topic.broker(config))
    if has_failed(found) or not config.topic:
        return found
    about_topic = attempt("topic", lambda: topic.topic(config))
    if has_failed(about_topic):
        return found + about_topic
    return (
        found
        + about_topic
        + attempt("partitions", lambda: topic.partitions(config, workers))
        + attempt("rights", lambda: topic.rights(config))
        + attempt("retention", lambda: topic.retention(config))
        + attempt("clock", lambda: topic.clock(config, now_s()))
    )
