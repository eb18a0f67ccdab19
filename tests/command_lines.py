"""Command lines that stand in files: read by the real command line, without running anything."""

from typing import Any

import typer
from typer.main import get_command

from pipeline.cli.main import app

REST = "…"
"""Stands for options that a reader fills in."""


def find(words: list[str]) -> tuple[Any, list[str]]:
    """The command (or group) that the words after `redactory` name, and the words that follow."""
    command: Any = get_command(app)
    rest = [word for word in words if word != "--debug"]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name, *rest = rest
        assert name in command.commands, f"redactory has no command {' '.join(words)!r}"
        command = command.commands[name]
    return command, rest


def parse(words: list[str]) -> dict[str, Any]:
    """What `redactory` understands by the words after its name; raises a usage error."""
    command, rest = find(words)
    try:
        context = command.make_context("redactory", rest)
    except typer.Exit:
        return {}  # --help
    except typer.BadParameter as error:
        # The subclass is for what is missing.
        if REST not in words or type(error) is typer.BadParameter:
            raise
        return {}
    return dict(context.params)


def options(words: list[str]) -> set[str]:
    """The options of the command that the words after `redactory` name."""
    command, _ = find(words)
    return {
        name for option in command.params for name in (*option.opts, *option.secondary_opts)
    } | {"--help", "--version"}
