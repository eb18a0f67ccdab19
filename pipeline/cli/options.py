"""Options that several commands share, so that each is spelled and explained once."""

from pathlib import Path
from typing import Annotated

import typer

Bootstrap = Annotated[str, typer.Option("--bootstrap", help="Brokers, host:port[,host:port].")]

ClientFile = Annotated[
    Path | None,
    typer.Option("--config", help="Client settings for Kafka: security.protocol, SASL, TLS."),
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

PolicyFile = Annotated[Path | None, typer.Option("--policy", help="Retention policy file.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
