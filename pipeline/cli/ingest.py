"""`redactory ingest`: Kafka, or files, → masked Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.cli.options import (
    ClientFile,
    DeleteConsumed,
    Format,
    Instance,
    Keys,
    Lake,
    PolicyFile,
    PublicKey,
    Registry,
    RegistryFile,
    Rules,
    Signature,
    Workers,
)

Brokers = Annotated[
    str | None, typer.Option(help="Brokers, host:port[,host:port].", show_default=False)
]

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="PATH…",
        help="Files or folders to read in place of a topic; no broker is needed.",
        show_default=False,
    ),
]

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="End when every partition is read to its end.")
]

Sweeping = Annotated[
    bool, typer.Option(help="Remove rows when they reach their deadline, every hour.")
]

RunTimeout = Annotated[
    float, typer.Option(min=0, help="Hours without an event after which a run is abandoned.")
]

FlushInterval = Annotated[
    float, typer.Option(min=0.1, help="Longest time until what was read can be queried.")
]

DeadLetterRate = Annotated[
    float,
    typer.Option(min=0, max=1, help="Stop if a larger part of the last messages is no events."),
]

Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz there.", show_default=False
    ),
]

Otlp = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Send metrics and traces there (OTLP, HTTP).", show_default=False
    ),
]

LogLines = Annotated[
    Literal["text", "json"], typer.Option("--log-format", help="How it speaks on stderr.")
]

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH…] [-- BEAM OPTIONS]",
        help="More files after --from; Beam options after --.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds `ingest`; what stands after `--` goes to Beam."""
    app.command(rich_help_panel="Run")(ingest)


def ingest(
    lake: Lake,
    bootstrap: Brokers = None,
    topic: Annotated[str | None, typer.Option(help="Topic to read.", show_default=False)] = None,
    files: Files = None,
    format_name: Format = "auto",
    rules: Rules = None,
    rules_public_key: PublicKey = None,
    rules_signature: Signature = None,
    keys: Keys = None,
    policy: PolicyFile = None,
    config: ClientFile = None,
    registry: Registry = None,
    registry_config: RegistryFile = None,
    until_caught_up: UntilCaughtUp = False,
    workers: Workers = 1,
    instance: Instance = "0/1",
    slice_records: Annotated[int, typer.Option(min=1, help="Most messages in a slice.")] = 20_000,
    slice_bytes: Annotated[int, typer.Option(min=1, help="Most bytes in a slice.")] = 32 << 20,
    flush_interval_s: FlushInterval = 5.0,
    sweep: Sweeping = True,
    delete_consumed: DeleteConsumed = False,
    run_timeout_h: RunTimeout = 24.0,
    max_dead_letter_rate: DeadLetterRate = 0.5,
    metrics: Metrics = None,
    otlp: Otlp = None,
    log_format: LogLines = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    words: Words = None,
) -> None:
    """Read a topic, mask what it holds and write it to the lake, exactly once.

    Runs until it is stopped (Ctrl-C or SIGTERM ends it cleanly), or with --until-caught-up until
    everything that stands in the topic is stored. It goes on where the lake's log ends. Rules that
    change meanwhile are taken up without a restart; of bad ones it says so, and goes on as before.

    A record is an event, or with --format otlp-proto an export of OTLP. --from reads files instead.
    """
    from pipeline.config import IngestConfig, SliceLimits, parse_instance
    from pipeline.metrics.monitor import Outlets
    from pipeline.progress import print_report, run_with_progress

    paths, beam_options = _sorted(files or (), words or ())
    _check_source(bootstrap, topic, files, paths, delete_consumed)
    ordinal, instances = parse_instance(instance)
    settings = IngestConfig(
        *(bootstrap or "", topic or "", lake),
        files=_found(paths, format_name),
        encoding=_encoding(files, format_name),
        rules=str(rules) if rules else None,
        rules_public_key=str(rules_public_key) if rules_public_key else None,
        rules_signature=str(rules_signature) if rules_signature else None,
        keys=str(keys) if keys else None,
        policy=str(policy) if policy else None,
        client_config=str(config) if config else None,
        registry=registry,
        registry_config=str(registry_config) if registry_config else None,
        until_caught_up=until_caught_up or bool(files),
        limits=SliceLimits(slice_records, slice_bytes, flush_interval_s),
        max_dead_letter_rate=max_dead_letter_rate,
        instance=ordinal,
        instances=instances,
        run_timeout_h=run_timeout_h,
        delete_consumed=delete_consumed,
        beam_options=beam_options,
    )
    report = run_with_progress(
        settings, workers, sweeping=sweep, outlets=Outlets.of(metrics, otlp), log_format=log_format
    )
    print_report(report, as_json)


def _sorted(
    files: Sequence[Path], words: Sequence[str]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """All files, also those that a shell wrote out after --from, and Beam's options."""
    options = tuple(word for word in words if word.startswith("-"))
    return (*files, *(Path(word) for word in words if not word.startswith("-"))), options


def _check_source(
    bootstrap: str | None,
    topic: str | None,
    files: Sequence[Path] | None,
    paths: Sequence[Path],
    delete_consumed: bool,
) -> None:
    """Raises UsageError unless either a topic is named or files are."""
    from pipeline.errors import UsageError

    if files and (bootstrap or topic or delete_consumed):
        raise UsageError(
            "--from reads files, --bootstrap and --topic read a topic",
            code="two-sources",
            hint="name one of them (--delete-consumed goes with a topic)",
        )
    if not files and (paths or not bootstrap or not topic):
        raise UsageError(
            "nothing is named to be read",
            code="no-source",
            hint="give --bootstrap and --topic, or --from FILES; Beam options stand after --",
        )


def _encoding(files: Sequence[Path] | None, format_name: str) -> str:
    """How the records of the topic are read, if it is one that is read."""
    from pipeline.unpacking import encoding_of

    return "" if files else encoding_of(format_name)


def _found(paths: Sequence[Path], format_name: str) -> tuple[tuple[str, str], ...]:
    """The files at these paths, each with its format; what of a folder is in none is left out."""
    from pipeline.emitter.files import find_inputs

    inputs, _ = find_inputs(paths, format_name) if paths else ([], [])
    found = ((str(each.path.resolve()), each.format.name) for each in inputs)
    return tuple(dict.fromkeys(found))
