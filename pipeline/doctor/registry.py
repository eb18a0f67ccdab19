"""What the schema registry says: whether it answers, and holds what a topic's messages name."""

from collections.abc import Iterator

from pipeline.config import IngestConfig
from pipeline.doctor.findings import Finding
from pipeline.opening import registry_of
from pipeline.registry.judging import subject_of, unfit


def registry(config: IngestConfig) -> Iterator[Finding]:
    """Whether the registry answers, and whether the topic's latest schema can be read."""
    opened = registry_of(config)
    assert opened is not None
    subjects = opened.subjects()
    subject = subject_of(config.topic)
    latest = opened.version(subject) if subject in subjects else None
    if latest is not None and (why := unfit(latest.text, latest.kind)):
        seen = f"version {latest.version} of {subject} is no schema of run events: {why[0]}"
        advice = "messages with it become dead letters: redactory schemas check"
        yield Finding("warn", "registry", seen, advice)
        return
    about = f", the latest of {subject} is version {latest.version}" if latest else ""
    yield Finding("ok", "registry", f"it answers, and has {len(subjects)} subjects{about}")
