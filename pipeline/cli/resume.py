"""`redactory resume`: go on with a run that died, and do nothing twice."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import ClientFile, Keys, Rules
from pipeline.cli.replay import Lake, Purpose


def register(app: typer.Typer) -> None:
    """Adds `resume`."""
    app.command(rich_help_panel="Replay")(resume)


def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    agent: Annotated[str, typer.Option(help="The agent's code, MODULE:FUNCTION.")],
    spool: Annotated[
        Path, typer.Option(help="The run's spool; new events are appended to it, or it is made.")
    ],
    import_path: Annotated[
        list[Path] | None, typer.Option("--path", help="Folder that the code is imported from.")
    ] = None,
    journals: Annotated[
        Path | None, typer.Option(help="Folder of the journals (default: yours).")
    ] = None,
    lake: Lake = "",
    bootstrap: Annotated[
        str, typer.Option(help="With --lake: brokers, to see that the lake lacks nothing.")
    ] = "",
    config: ClientFile = None,
    resend_unknown: Annotated[
        bool, typer.Option("--resend-unknown", help="Make effects again of which nobody knows.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="From the beginning, as the next attempt.")
    ] = False,
    rules: Rules = None,
    keys: Keys = None,
    purpose: Purpose = None,
) -> None:
    """Go on where the record of a run ends: recorded answers are not asked for again, the call
    without an answer is made again under the same key, and the rest is live.

    Prints what the agent returns, as JSON. A run whose events lie in a lake is resumed only if the
    lake has all that the topic has.
    """
    from pipeline.errors import UsageError
    from pipeline.kafka import end_of_partition
    from pipeline.replay.opening import Source
    from pipeline.replay.using import Resumption, resume_from_lake, resume_from_spool
    from redactors import load_or_create_keys, load_ruleset

    wanted = Resumption(agent, spool, journals, tuple(import_path or ()), resend_unknown, restart)
    if lake:
        if not bootstrap:
            raise UsageError(
                "only the topic can tell whether the lake lacks nothing of the run",
                code="usage",
                hint="give --bootstrap",
            )

        def end_of(topic: str, partition: int) -> int:
            return end_of_partition(bootstrap, topic, partition, config)

        replayer = Source(lake, None, keys, rules, purpose, command="resume").replayer()
        returned = resume_from_lake(run_id, wanted, replayer, end_of)
    else:
        ring, _ = load_or_create_keys(keys)
        returned = resume_from_spool(run_id, wanted, load_ruleset(rules), ring)
    typer.echo(json.dumps(returned))
