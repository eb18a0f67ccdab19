import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tracked(checkout: Path) -> list[Path]:
    """Every file of the repository, as git knows them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := checkout / name).is_file()]
