"""Remembers which rulesets were proved, so that the next start need not prove them again.

What is kept is an empty file named by a digest of the rules and of the code that judged them.
"""

from pathlib import Path

from redactors.cache import code_digest, place, write


def is_proved(document: bytes) -> bool:
    """Whether a ruleset with this document was proved by this very code before."""
    try:
        return _path(document).is_file()
    except OSError:
        return False


def remember_proof(document: bytes) -> None:
    """Keeps the verdict, if it can."""
    write(_path(document), b"")


def _path(document: bytes) -> Path:
    return place("proved", code_digest() + document)
