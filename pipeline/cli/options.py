"""Options that several commands share, so that each is spelled and explained once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

Bootstrap = Annotated[str, typer.Option("--bootstrap", help="Brokers, host:port[,host:port].")]

Format = Annotated[
    str,
    typer.Option("--format", help="auto (by content), or one by name; a wrong one lists them."),
]

ClientFile = Annotated[
    Path | None,
    typer.Option("--config", help="Client settings for Kafka: security.protocol, SASL, TLS."),
]

_REGISTRY = typer.Option(
    "--registry",
    metavar="URL",
    envvar="REDACTORY_REGISTRY",
    help="Schema registry (Confluent's API).",
    show_default=False,
)
Registry = Annotated[str | None, _REGISTRY]
RegistryUrl = Annotated[str, _REGISTRY]

RegistryFile = Annotated[
    Path | None,
    typer.Option("--registry-config", help="Its client's settings: basic.auth.user.info, ssl.*."),
]

Lake = Annotated[
    str,
    typer.Option("--lake", envvar="REDACTORY_LAKE", help="Directory or s3:// prefix of the lake."),
]

Rules = Annotated[
    Path | None,
    typer.Option("--rules", help="Ruleset file or folder (default: the built-in rules)."),
]

Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", envvar="REDACTORY_KEYS", help="Key ring (default: yours, made if missing)."
    ),
]

PublicKey = Annotated[
    Path | None,
    typer.Option("--rules-public-key", help="Take rules only if signed under it (PEM)."),
]

Signature = Annotated[
    Path | None,
    typer.Option("--rules-signature", help="Their signature (default: the rules' path with .sig)."),
]

Workers = Annotated[int, typer.Option(min=1, help="Worker processes.")]

Instance = Annotated[
    str, typer.Option(metavar="I/N", help="Read only partitions p with p mod N = I.")
]

DeleteConsumed = Annotated[
    bool, typer.Option("--delete-consumed", help="Delete the topic's records once committed.")
]

PolicyFile = Annotated[Path | None, typer.Option("--policy", help="Retention policy file.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def micros(instant: datetime | None) -> int | None:
    """The microseconds since the epoch of an instant given in UTC, if one is given."""
    return None if instant is None else required_micros(instant)


def required_micros(instant: datetime) -> int:
    """The same for one that is always given."""
    return int(instant.replace(tzinfo=UTC).timestamp()) * 1_000_000
