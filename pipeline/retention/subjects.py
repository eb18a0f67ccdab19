"""Subjects under the names that the lake has for them."""

from collections.abc import Iterable
from pathlib import Path

from redactors import KeyRing
from redactors.keys import default_key_file
from redactors.masks import SUBJECT_LABEL, Masks


def pseudonyms_of(subjects: Iterable[str], keys: Path | None) -> tuple[str, ...]:
    """The pseudonyms of subjects under every key of a ring's file (None: the default one).

    Raises KeyRingError if there is no ring: without a key nobody can say which rows are meant.
    """
    wanted = list(subjects)
    if not wanted:
        return ()
    ring = KeyRing.load(keys or default_key_file())
    return tuple(
        sorted(name for key_id in ring.keys for name in _under(ring.with_current(key_id), wanted))
    )


def _under(ring: KeyRing, subjects: Iterable[str]) -> list[str]:
    masks = Masks([SUBJECT_LABEL], ring)
    return [
        subject
        if masks.is_mask(subject)
        else masks.hashed(SUBJECT_LABEL, subject.encode("utf-8", "surrogatepass"))
        for subject in subjects
    ]


def ring_if_any(keys: Path | None) -> KeyRing | None:
    """The key ring of a file (None: the default one); None if there is none."""
    file = keys or default_key_file()
    return KeyRing.load(file) if keys or file.exists() else None
