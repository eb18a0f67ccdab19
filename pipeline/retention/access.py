"""Who reads content, what for, and when: asked for where a class wants it, and written down.

Each read is a document of its own in `_audit/reads/<day>/`, written before anything is shown.
"""

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.errors import UsageError
from pipeline.lake.documents import load_policy_document
from pipeline.lake.entries import encode
from pipeline.lake.layout import AUDIT, parse_bucket
from pipeline.lake.live import Lake
from pipeline.lake.store import Store
from pipeline.retention.documents import FORMAT, decode
from pipeline.retention.policy import bucket_name, parse_policy

READS: Final = f"{AUDIT}/reads"


@dataclass(frozen=True, slots=True)
class Read:
    """One read of content: `by` whom, with which `command`, of which classes (or `run`)."""

    now_us: int
    by: str
    command: str
    purpose: str
    classes: tuple[str, ...]
    run: str = ""
    format: int = FORMAT


def note_read(
    lake: Lake,
    *,
    now_us: int,
    by: str,
    command: str,
    purpose: str | None,
    run: str = "",
    classes: Collection[str] | None = None,
) -> Read:
    """Checks that classes of a lake (None: all it has) may be read for a purpose, and writes the
    read down.

    Raises `UsageError` where a class demands a purpose that was not given, `LakeError` if the read
    cannot be written down: then nothing may be shown.
    """
    classes = _classes_of(lake) if classes is None else classes
    allowed = _purposes(lake)
    for name in sorted(classes):
        if name in allowed and purpose not in allowed[name]:
            wanted = ", ".join(sorted(allowed[name])) or "none that all policies in force allow"
            raise UsageError(
                f"class {name} is read for a purpose only: {wanted}",
                code="purpose",
                hint="give --purpose, or leave the class out with --class",
            )
    read = Read(now_us, by, command, purpose or "", tuple(sorted(classes)), run)
    day = bucket_name(now_us)[:10]
    lake.store.put_if_absent(f"{READS}/{day}/{now_us:020}-{secrets.token_hex(4)}", encode(read))
    return read


def read_reads(store: Store) -> Iterator[Read]:
    """Every read that was written down, in order of time."""
    for key in sorted(item.key for item in store.walk(READS)):
        yield decode(Read, store.get(key))


def _classes_of(lake: Lake) -> set[str]:
    files = (file for table in ("events", "runs") for file in lake.files[table])
    buckets = (parse_bucket(file.path) for file in files)
    return {bucket.retention_class for bucket in buckets if bucket is not None}


def _purposes(lake: Lake) -> Mapping[str, frozenset[str]]:
    """What each class may be read for, by the policies that are in force; where they differ, only
    what all of them allow."""
    last = [history.position.last_commit for history in lake.histories]
    digests = {commit.policy for commit in last if commit is not None}
    allowed: dict[str, frozenset[str]] = {}
    for name, purposes in _demands(lake.store, digests):
        allowed[name] = allowed[name] & purposes if name in allowed else purposes
    return allowed


def _demands(store: Store, digests: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for digest in digests:
        for name, chosen in parse_policy(load_policy_document(store, digest)).classes.items():
            if chosen.purposes:
                yield name, frozenset(chosen.purposes)
