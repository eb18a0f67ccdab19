"""Remembers which rulesets were proved, so that the next start need not prove them again.

What is kept is an empty file named by a digest of the rules and of the code that judged them.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import platformdirs

_PACKAGE: Final = Path(__file__).parent


def is_proved(document: bytes) -> bool:
    """Whether a ruleset with this document was proved by this very code before."""
    try:
        return _path(document).is_file()
    except OSError:
        return False


def remember_proof(document: bytes) -> None:
    """Keeps the verdict if it can; a cache that cannot be written only costs time."""
    path = _path(document)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return


def _path(document: bytes) -> Path:
    digest = hashlib.sha256(_code_digest() + document).hexdigest()
    return platformdirs.user_cache_path("redactory") / "proved" / digest


@cache
def _code_digest() -> bytes:
    """Over the sources of this package: an altered validator makes every verdict void."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()
