"""The wheel as a user gets it: what is in it, and what importing it costs."""

import subprocess
import sys
import sysconfig
from importlib.metadata import distributions, files, packages_distributions
from pathlib import Path, PurePosixPath

import pytest

import pipeline
import redactors
import schemas

PACKAGES = {"pipeline", "redactors", "schemas"}
HEAVY = ("apache_beam", "pyarrow", "duckdb", "obstore", "pandas", "presidio_analyzer")


def test_the_tests_run_against_the_installed_wheel(checkout: Path) -> None:
    installed = Path(sysconfig.get_path("purelib"))
    for package in (pipeline, redactors, schemas):
        assert package.__file__
        assert Path(package.__file__).is_relative_to(installed)
    assert str(checkout) not in sys.path


def test_no_other_distribution_owns_our_names() -> None:
    owners = packages_distributions()
    assert {name: owners[name] for name in PACKAGES} == {name: ["redactory"] for name in PACKAGES}
    others = [d.name for d in distributions() if d.name != "redactory"]
    assert "redactory" not in others


def test_the_wheels_top_level_is_our_three_packages() -> None:
    tops = {path.parts[0] for path in _installed()}
    tops = {top for top in tops if not top.endswith(".dist-info") and top != ".."}
    assert tops == PACKAGES


def test_every_file_of_the_source_is_in_the_wheel(checkout: Path) -> None:
    source = {
        path.relative_to(checkout).as_posix()
        for package in PACKAGES
        for path in (checkout / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {PurePosixPath(name).suffix for name in source} >= {".py", ".avsc", ".yaml", ".xml"}
    assert source <= {path.as_posix() for path in _installed()}


@pytest.mark.parametrize("module", ["pipeline.emitter", "pipeline.kafka", "redactors", "schemas"])
def test_what_agents_import_is_light(module: str) -> None:
    program = f"import {module}, sys; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    assert _python(program) == ""


def test_the_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['redactory', '--help']\n"
        "from pipeline.cli.main import main\n"
        "try: main()\n"
        f"finally: print('HEAVY', *(m for m in {HEAVY!r} if m in sys.modules))"
    )
    assert _python(program).splitlines()[-1] == "HEAVY"


def test_the_console_script_is_installed_and_works() -> None:
    script = Path(sysconfig.get_path("scripts")) / "redactory"
    shown = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("redactory ")


def test_types_are_declared_to_type_checkers() -> None:
    assert {f"{name}/py.typed" for name in PACKAGES} <= {p.as_posix() for p in _installed()}


def _installed() -> list[PurePosixPath]:
    found = files("redactory")
    assert found
    return [PurePosixPath(path) for path in found]


def _python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
