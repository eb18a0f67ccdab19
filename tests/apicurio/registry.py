"""Apicurio Registry, in memory, as the tests' schema registry; as a program: fetches its jars."""

import hashlib
import os
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.request import ProxyHandler, build_opener

import platformdirs

POM = Path(__file__).with_name("pom.xml")
ARCHIVE = "apicurio-registry-app-2.6.13.Final-all.tar.gz"
RUNNER = "apicurio-registry-app-2.6.13.Final-runner.jar"
SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"

JVM_FLAGS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_TIMEOUT_S = 90.0

_ASK = build_opener(ProxyHandler({}))


def fetch() -> Path:
    """The folder with the registry's jars; fetches them by Maven (142 MB) if they are missing."""
    target = platformdirs.user_cache_path("redactory") / f"registry-{SHA256[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as temporary:
        folder = Path(temporary)
        goal = ["dependency:copy", f"-DoutputDirectory={folder}"]
        subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "-f", os.fspath(POM), *goal],
            stdin=subprocess.DEVNULL,
            check=True,
        )
        with (folder / ARCHIVE).open("rb") as archive:
            found = hashlib.file_digest(archive, "sha256").hexdigest()
        assert found == SHA256, f"{ARCHIVE} is not the pinned one"
        with tarfile.open(folder / ARCHIVE) as archive:
            archive.extractall(folder / "jars", filter="data")
        with suppress(OSError):  # somebody else was faster
            (folder / "jars").rename(target)
    assert target.is_dir()
    return target


@dataclass
class Apicurio:
    """A running registry on the loopback interface; `url` is that of its Confluent API."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @classmethod
    def start(cls, port: int, log: Path) -> Self:
        """Starts one and waits until it answers; what it says goes to `log`."""
        settings = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
        with log.open("ab") as out:
            process = subprocess.Popen(
                ["java", *JVM_FLAGS, *settings, "-jar", os.fspath(fetch() / RUNNER)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        registry, ends_s = cls(port, process), time.monotonic() + START_TIMEOUT_S
        try:
            while not registry._answers():
                assert process.poll() is None and time.monotonic() < ends_s, f"see {log}"
                time.sleep(0.1)
        except BaseException:
            registry.stop()
            raise
        return registry

    def stop(self) -> None:
        """Ends it, with all that was registered."""
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            with _ASK.open(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


if __name__ == "__main__":
    fetch()
