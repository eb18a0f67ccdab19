"""Command lines that stand in files: read by the real command line, without running anything."""

from typing import Any

import typer
from typer.main import get_command

from pipeline.cli.main import app

REST = "…"
"""Stands for options that a reader fills in."""


def parse(words: list[str]) -> dict[str, Any]:
    """What `redactory` understands by the words after its name; raises a usage error."""
    command: Any = get_command(app)
    name, rest = "redactory", [word for word in words if word != "--debug"]
    while hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            raise AssertionError(f"redactory has no command {' '.join(words)!r}")
        name, *rest = rest
        command = command.commands[name]
    try:
        context = command.make_context(name, rest)
    except typer.BadParameter as error:
        # The subclass is for what is missing.
        if REST not in words or type(error) is typer.BadParameter:
            raise
        return {}
    return dict(context.params)
