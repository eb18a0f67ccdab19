"""The formats that `emit` and `ingest --from` read, and which of them a file is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pipeline.errors import UsageError
from pipeline.formats import (
    claude_code,
    inspect_ai,
    inspect_eval,
    langsmith,
    openhands,
    otlp,
    run_event,
    swe_agent,
    tau_bench,
    vcr,
)
from pipeline.formats.base import Format, open_source

FORMATS: Final[Mapping[str, Format]] = {
    "run-event": run_event.FORMAT,
    # Before those that are known by words that its spans' content may hold.
    "langsmith": langsmith.FORMAT,
    "tau-bench": tau_bench.FORMAT,
    "swe-agent": swe_agent.FORMAT,
    "claude-code": claude_code.FORMAT,
    "openhands": openhands.FORMAT,
    "inspect": inspect_ai.FORMAT,
    "inspect-eval": inspect_eval.FORMAT,
    "vcr": vcr.FORMAT,
    "otlp-json": otlp.JSON,
    "otlp-proto": otlp.PROTO,
}

AUTO: Final = "auto"


def format_named(name: str) -> Format:
    """The format of this name; UsageError lists the names there are."""
    if name not in FORMATS:
        raise UsageError(
            f"there is no format {name}",
            code="unknown-format",
            hint=f"choose one of {', '.join([AUTO, *FORMATS])}",
        )
    return FORMATS[name]


def format_of(path: Path) -> Format | None:
    """The format that a file's content shows, plain or gzip; None if there is none."""
    with open_source(path, captured_at_us=0) as (source, _):
        head = source.head()
    return next((known for known in FORMATS.values() if known.sniff(head)), None)
