"""The broker's jars: fetched once by Maven, checked against pinned digests, then used offline."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

import platformdirs

from pipeline.errors import BrokerError

_PACKAGE = files("pipeline.broker")


def jars_dir() -> Path:
    """Where the jars lie once fetched; another set of jars gets another folder."""
    pins = hashlib.sha256(_pins().encode()).hexdigest()
    return platformdirs.user_cache_path("redactory") / f"broker-{pins[:12]}"


def fetch_jars(report: Callable[[str], None]) -> Path:
    """The folder with all jars; fetches them by `mvn` if it is not there yet.

    Raises BrokerError if Maven is missing or fails, or if a jar is not the pinned one.
    """
    target = jars_dir()
    if target.is_dir():
        return target
    if shutil.which("mvn") is None:
        raise BrokerError(
            "Maven is needed once to fetch the broker's jars, and `mvn` is not on the PATH",
            code="maven-missing",
            hint="install Maven, or give --bootstrap another Kafka cluster",
        )
    report("fetching the broker's jars (43 MB, once)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as temporary:
        fetched = Path(temporary) / "jars"
        _run_maven(fetched)
        _check(fetched)
        try:
            fetched.rename(target)  # complete or not there at all
        except OSError:
            if not target.is_dir():  # else somebody else was faster
                raise
    return target


def _run_maven(target: Path) -> None:
    with as_file(_PACKAGE / "pom.xml") as pom:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
        done = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "-f", os.fspath(pom), *goal],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise BrokerError(
            f"Maven could not fetch the broker's jars (exit code {done.returncode})",
            code="jars-missing",
            hint="check the network and Maven's settings, then try again: redactory broker fetch",
        )


def _check(folder: Path) -> None:
    pinned = {name: digest for digest, name in (line.split() for line in _pins().splitlines())}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")
    }
    wrong = sorted(
        name for name in pinned.keys() | found.keys() if pinned.get(name) != found.get(name)
    )
    if wrong:
        raise BrokerError(
            f"the fetched jars are not the pinned ones ({', '.join(wrong[:3])})",
            code="jars-differ",
            hint="check Maven's settings and its local repository, then try again",
        )


def _pins() -> str:
    return (_PACKAGE / "jars.sha256").read_text(encoding="ascii")
