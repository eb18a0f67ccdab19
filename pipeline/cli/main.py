"""The command line's root: gathers the commands and turns errors into one sentence.

Exit codes: 0 done, 1 found what it was asked to find, 2 wrong usage, 3 could not do it,
130 interrupted, 141 the reader of our output went away.
"""

import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pipeline.errors import PipelineError
from redactors.errors import KeyRingError, RedactorsError, RulesetError
from schemas.errors import SchemasError

COMMANDS = (
    *("emit", "ingest", "runs", "query", "verify", "redact", "rules"),
    *("replay", "diff", "resume", "rescrub", "retention", "log", "deadletters", "schemas"),
    *("doctor", "demo", "broker"),
)
"""The modules of `pipeline.cli` that register commands, in the order of the help text."""

EXTRA_OF = {
    "apache_beam": "pipeline",
    "boto3": "kms",
    "botocore": "kms",
    "duckdb": "pipeline",
    "obstore": "pipeline",
    "opentelemetry": "otel",
    "opentelemetry.exporter": "otel",
    "packaging": "pipeline",
    "psutil": "pipeline",
    "prometheus_client": "pipeline",
    "pyarrow": "pipeline",
    "presidio_analyzer": "ner",
}


class Root(TyperGroup):
    """Ends without a word when a person interrupts, or when nobody reads our output any more."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; data that was printed has reached its reader when this returns."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes again on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return result


app = typer.Typer(
    name="redactory",
    cls=Root,
    help="Masks secrets and personal data in agent runs on their way from Kafka to Parquet.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redactory {version('redactory')}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="REDACTORY_DEBUG", help="Show the trace of an error.")
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of every command."""
    if debug:
        os.environ["REDACTORY_DEBUG"] = "1"


for _name in COMMANDS:
    import_module(f"pipeline.cli.{_name}").register(app)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except Exception as error:
        if os.environ.get("REDACTORY_DEBUG"):
            traceback.print_exc()
        sentence, exit_code = explain(error)
        typer.echo(f"error: {sentence}", err=True)
        sys.exit(exit_code)


def explain(error: Exception) -> tuple[str, int]:
    """An error as one sentence with what to do, and its exit code.

    Only our own errors are quoted; the text of any other may hold payload.
    """
    match error:
        case PipelineError():
            return _join(str(error), error.hint), error.exit_code
        case RulesetError() | KeyRingError():
            return str(error), 2
        case RedactorsError() | SchemasError():
            return str(error), 3
        case ModuleNotFoundError() if error.name in EXTRA_OF:
            extra = EXTRA_OF[error.name]
            return _join(
                f"this needs {error.name}, which is not installed",
                f"pip install 'redactory[{extra}]'",
            ), 3
        case OSError() if error.strerror:
            place = f": {error.filename}" if error.filename else ""
            return f"{error.strerror.lower()}{place}", 3
    return _join(
        f"something unforeseen happened ({type(error).__name__})",
        "run it again with --debug before the command to see where",
    ), 3


def _join(sentence: str, hint: str) -> str:
    return f"{sentence} — {hint}" if hint else sentence
