"""The command line's root: errors in one sentence, exit codes, silence where it is due."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import typer

from pipeline.cli import main as root
from pipeline.cli.main import explain
from pipeline.errors import BrokerError, LakeError, UsageError
from redactors.errors import RulesetError, Unexaminable
from schemas.errors import DecodeError


@pytest.mark.parametrize(
    ("error", "sentence", "exit_code"),
    [
        (UsageError("bad option", code="x", hint="use another"), "bad option — use another", 2),
        (BrokerError("broker is away", code="x", hint="start it"), "broker is away — start it", 3),
        (LakeError("lake is full", code="x"), "lake is full", 3),
        (RulesetError("no such action", source="r.yaml", line=7), "r.yaml:7: no such action", 2),
        (Unexaminable("too-deep"), "payload cannot be examined: too-deep", 3),
        (DecodeError("empty-value"), str(DecodeError("empty-value")), 3),
        (PermissionError(13, "Permission denied", "/lake"), "permission denied: /lake", 3),
    ],
)
def test_an_error_is_one_sentence_with_what_to_do(
    error: Exception, sentence: str, exit_code: int
) -> None:
    assert explain(error) == (sentence, exit_code)


def test_the_text_of_a_foreign_error_is_never_shown() -> None:
    sentence, exit_code = explain(ValueError("could not convert 'the payload' to float"))
    assert "payload" not in sentence
    assert "ValueError" in sentence
    assert exit_code == 3


def test_a_missing_extra_is_named() -> None:
    sentence, exit_code = explain(ModuleNotFoundError("no", name="apache_beam"))
    assert "pip install 'redactory[pipeline]'" in sentence
    assert exit_code == 3


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `main` with one command that raises; gives the exit code."""

    def run(error: BaseException, *options: str) -> int:
        app = typer.Typer(cls=root.Root, pretty_exceptions_enable=False)
        app.callback()(root.options)

        @app.command()
        def fail() -> None:
            raise error

        monkeypatch.delenv("REDACTORY_DEBUG", raising=False)
        monkeypatch.setattr(root, "app", app)
        monkeypatch.setattr(sys, "argv", ["redactory", *options, "fail"])
        with pytest.raises(SystemExit) as ended:
            root.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


def test_an_error_goes_to_stderr_without_a_trace(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(BrokerError("broker is away", code="x", hint="start it")) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "error: broker is away — start it\n"


def test_debug_shows_the_trace_before_the_sentence(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(BrokerError("broker is away", code="x"), "--debug") == 3
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith("error: broker is away\n")


def test_an_interrupt_ends_quietly_with_130(
    fail_with: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(KeyboardInterrupt()) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_wrong_usage_is_exit_code_2_and_data_stays_off_stdout() -> None:
    done = _redactory("no-such-command")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no-such-command" in done.stderr


def test_the_version_is_the_distributions() -> None:
    done = _redactory("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("redactory ")


@pytest.mark.parametrize("command", root.COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = _redactory(command, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = (
        "import typer; from pipeline.cli import main as root\n"
        "app = root.app = typer.Typer(cls=root.Root)\n"
        "app.callback()(root.options)\n@app.command()\n"
        "def speak() -> None:\n"
        "    for _ in range(100_000): print('a line')\n"
        "root.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "speak"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as speaker:
        assert speaker.stdout and speaker.stderr
        speaker.stdout.readline()
        speaker.stdout.close()
        assert speaker.stderr.read() == b""
        assert speaker.wait(30) == 141


def _redactory(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
