"""`redactory ingest`: Kafka → masked Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Bootstrap, ClientFile, Keys, Lake, PolicyFile, Rules

PublicKey = Annotated[
    Path | None,
    typer.Option("--rules-public-key", help="Take rules only if signed under it (PEM)."),
]
Signature = Annotated[
    Path | None,
    typer.Option("--rules-signature", help="Their signature (default: the rules' path with .sig)."),
]

Instance = Annotated[
    str, typer.Option(metavar="I/N", help="Read only partitions p with p mod N = I.")
]


def register(app: typer.Typer) -> None:
    """Adds `ingest`; what stands after `--` goes to Beam."""
    app.command(rich_help_panel="Run")(ingest)


def ingest(
    bootstrap: Bootstrap,
    topic: Annotated[str, typer.Option(help="Topic to read.")],
    lake: Lake,
    rules: Rules = None,
    rules_public_key: PublicKey = None,
    rules_signature: Signature = None,
    keys: Keys = None,
    policy: PolicyFile = None,
    config: ClientFile = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when every partition is read to its end.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    instance: Instance = "0/1",
    slice_records: Annotated[int, typer.Option(min=1, help="Most messages in a slice.")] = 20_000,
    slice_bytes: Annotated[int, typer.Option(min=1, help="Most bytes in a slice.")] = 32 << 20,
    flush_interval_s: Annotated[
        float, typer.Option(min=0.1, help="Longest time until what was read can be queried.")
    ] = 5.0,
    sweep: Annotated[
        bool, typer.Option(help="Remove rows when they reach their deadline, every hour.")
    ] = True,
    delete_consumed: Annotated[
        bool, typer.Option("--delete-consumed", help="Delete the topic's records once committed.")
    ] = False,
    run_timeout_h: Annotated[
        float, typer.Option(min=0, help="Hours without an event after which a run is abandoned.")
    ] = 24.0,
    max_dead_letter_rate: Annotated[
        float,
        typer.Option(min=0, max=1, help="Stop if a larger part of the last messages is no events."),
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    beam_options: Annotated[
        list[str] | None, typer.Argument(help="Beam options, after --.", show_default=False)
    ] = None,
) -> None:
    """Read a topic, mask what it holds and write it to the lake, exactly once.

    Runs until it is stopped (Ctrl-C or SIGTERM ends it cleanly), or with --until-caught-up until
    everything that stands in the topic is stored. It goes on where the lake's log ends. Rules that
    change meanwhile are taken up without a restart; of bad ones it says so, and goes on as before.
    """
    from pipeline.config import IngestConfig, SliceLimits, parse_instance
    from pipeline.progress import print_report, run_with_progress

    ordinal, instances = parse_instance(instance)
    settings = IngestConfig(
        bootstrap=bootstrap,
        topic=topic,
        lake=lake,
        rules=str(rules) if rules else None,
        rules_public_key=str(rules_public_key) if rules_public_key else None,
        rules_signature=str(rules_signature) if rules_signature else None,
        keys=str(keys) if keys else None,
        policy=str(policy) if policy else None,
        client_config=str(config) if config else None,
        until_caught_up=until_caught_up,
        limits=SliceLimits(slice_records, slice_bytes, flush_interval_s),
        max_dead_letter_rate=max_dead_letter_rate,
        instance=ordinal,
        instances=instances,
        run_timeout_h=run_timeout_h,
        delete_consumed=delete_consumed,
        beam_options=tuple(beam_options or ()),
    )
    print_report(run_with_progress(settings, workers, sweeping=sweep), as_json)
