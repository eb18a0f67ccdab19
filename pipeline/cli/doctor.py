"""`redactory doctor`: what an ingest would meet, before it does."""

from typing import Annotated

import typer

from pipeline.cli.options import (
    AsJson,
    ClientFile,
    DeleteConsumed,
    Instance,
    Keys,
    PolicyFile,
    PublicKey,
    Registry,
    RegistryFile,
    Rules,
    Signature,
    Workers,
)


def register(app: typer.Typer) -> None:
    """Adds `doctor`."""
    app.command(rich_help_panel="Operate")(doctor)


def doctor(
    bootstrap: Annotated[
        str, typer.Option(help="Brokers, host:port[,host:port]; none: they are left out.")
    ] = "",
    topic: Annotated[str, typer.Option(help="Topic that an ingest is to read.")] = "",
    lake: Annotated[
        str,
        typer.Option(envvar="REDACTORY_LAKE", help="Directory or s3:// prefix; none: left out."),
    ] = "",
    rules: Rules = None,
    rules_public_key: PublicKey = None,
    rules_signature: Signature = None,
    keys: Keys = None,
    policy: PolicyFile = None,
    config: ClientFile = None,
    registry: Registry = None,
    registry_config: RegistryFile = None,
    workers: Workers = 1,
    instance: Instance = "0/1",
    delete_consumed: DeleteConsumed = False,
    as_json: AsJson = False,
) -> None:
    """Examine what an ingest with the same options would meet, and say what to do.

    One line each: ok, warn (it runs, but look) or fail. Makes neither lake nor key file; puts one
    probe into a lake that is there, and removes it. Exit code 1 if anything failed.
    """
    import time

    from pipeline.config import IngestConfig, parse_instance
    from pipeline.doctor.examine import examine
    from pipeline.doctor.findings import as_json as findings_as_json
    from pipeline.doctor.findings import has_failed

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
        registry=registry,
        registry_config=str(registry_config) if registry_config else None,
        instance=ordinal,
        instances=instances,
        delete_consumed=delete_consumed,
    )
    findings = examine(settings, workers, time.time)
    typer.echo(findings_as_json(findings) if as_json else "\n".join(map(str, findings)))
    if has_failed(findings):
        raise typer.Exit(1)
