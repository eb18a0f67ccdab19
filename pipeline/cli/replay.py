"""`redactory replay`: run it again without touching the world."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Keys, Rules


class Mode(StrEnum):
    """The four questions."""

    FORENSIC = "forensic"
    RECORDED = "recorded"
    HYBRID = "hybrid"
    FRESH = "fresh"


class OnMiss(StrEnum):
    """What a miss of a hybrid replay means."""

    STOP = "stop"
    COUNT = "count"


class Isolation(StrEnum):
    """What keeps a replay from the world."""

    KERNEL = "kernel"
    AUDIT_HOOK = "audit-hook"


Lake = Annotated[str, typer.Option("--lake", envvar="REDACTORY_LAKE", help="Lake to read from.")]
From = Annotated[
    Path | None,
    typer.Option("--from", help="Bundle (.bundle), run events or another known file instead."),
]
Matching = Annotated[
    Path | None, typer.Option(help="Matching policy, for runs that have none in their record.")
]
Purpose = Annotated[
    str | None, typer.Option(help="What for; some classes demand it. It is written down.")
]
ImportPath = Annotated[
    list[Path] | None, typer.Option("--path", help="Folder that the code is imported from.")
]
Over = Annotated[str | None, typer.Option(help="SQL over the lake; its first column are run ids.")]
Substitute = Annotated[
    list[str] | None, typer.Option(help="Hybrid: model, or tool:NAME. [default: model]")
]
ProviderOption = Annotated[
    str | None, typer.Option("--provider", help="Hybrid: MODULE:FUNCTION that answers those calls.")
]
Allow = Annotated[
    list[str] | None, typer.Option(help="Grant for an hour: tool:NAME, effect:NAME=OPERATION.")
]
Capture = Annotated[
    Path | None, typer.Option(help="Write what the replay did, as run events, to a new file.")
]
Export = Annotated[
    Path | None, typer.Option(help="Replay nothing: write a bundle of the runs (.bundle).")
]
AcceptAuditHook = Annotated[
    bool, typer.Option("--accept-audit-hook", help="Replay though the kernel does not deny.")
]


def register(app: typer.Typer) -> None:
    """Adds `replay`."""
    app.command(rich_help_panel="Replay")(replay)


def replay(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="Id of the run.")] = None,
    mode: Annotated[Mode, typer.Option(help="The question.")] = Mode.RECORDED,
    agent: Annotated[str, typer.Option(help="The agent's code, MODULE:FUNCTION.")] = "",
    import_path: ImportPath = None,
    lake: Lake = "",
    file: From = None,
    over: Over = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Not the last attempt.")] = None,
    substitute: Substitute = None,
    provider: ProviderOption = None,
    allow: Allow = None,
    on_miss: Annotated[OnMiss, typer.Option(help="Hybrid: what a miss means.")] = OnMiss.STOP,
    task: Annotated[Path | None, typer.Option(help="Fresh: JSON file with the raw task.")] = None,
    new_run_id: Annotated[str | None, typer.Option("--run-id", help="Fresh: id to use.")] = None,
    capture: Capture = None,
    export: Export = None,
    isolation: Annotated[Isolation, typer.Option(help="What denies it the world.")] = (
        Isolation.KERNEL
    ),
    accept_audit_hook: AcceptAuditHook = False,
    matching: Matching = None,
    rules: Rules = None,
    keys: Keys = None,
    purpose: Purpose = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a recorded run: what was recorded, how does this code behave with it, what now, what if.

    Exit code 1 if a replay diverged from its record, 3 if one could not go on.
    """
    from pipeline.replay import opening, show, using
    from pipeline.replay.batch import Setting

    setting = Setting(
        tuple(import_path or ()),
        use_kernel=isolation is Isolation.KERNEL,
        accept_audit_hook=accept_audit_hook,
    )
    replayer = opening.Source(
        lake, file, keys, rules, purpose, matching, "replay", setting
    ).replayer()
    if mode is Mode.FORENSIC and export is None:
        told = replayer.forensic(run_id or "")
        lines = [json.dumps(show.forensic_dict(told))] if as_json else show.forensic_lines(told)
        typer.echo("\n".join(lines))
        return
    runs = opening.chosen_runs(replayer.archive, run_id, over, attempt)
    if export is not None:
        opening.export(replayer, runs, export)
        typer.echo(f"wrote {export}", err=True)
        return
    wanted = using.Wanted(
        mode.value, agent, tuple(substitute or ("model",)), provider, tuple(allow or ()), task,
        new_run_id,
    )  # fmt: skip
    result = using.replay(replayer, runs, wanted)
    if capture is not None:
        opening.capture(replayer, result.replayed, runs, capture)
    if as_json:
        replays = [each.as_dict() for each in result.replayed]
        typer.echo(json.dumps({"replays": replays, **result.as_dict()}))
    else:
        typer.echo("\n".join([*show.replay_lines(result.replayed), *show.regression_lines(result)]))
    if result.warning:
        typer.echo(f"warning: {result.warning}", err=True)
    code = using.exit_code(result, counts_misses=on_miss is OnMiss.COUNT)
    if code:
        raise typer.Exit(code)
