"""The log of one partition, read entry by entry with nothing taken for granted."""

from dataclasses import dataclass, field

from pipeline.errors import LakeError, LogError
from pipeline.lake import layout
from pipeline.lake.entries import Checkpoint, Commit, Intent, decode, digest, shared_fields
from pipeline.lake.proof.findings import Finding
from pipeline.lake.store import Store


@dataclass(slots=True)
class Trail:
    """What could be read of a partition's log, and what was wrong with it.

    The digests are the SHA-256 of the documents ("": it could not be read).
    """

    topic: str
    partition: int
    checkpoint: Checkpoint | None = None
    commits: list[Commit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    next_number: int = 1
    last_digest: str = ""
    checkpoint_digest: str = ""

    def found(self, code: str, detail: str, *, offset: int = -1, path: str = "") -> None:
        self.findings.append(Finding(self.topic, self.partition, offset, code, path, detail))


def read_trail(store: Store, topic: str, partition: int) -> Trail:
    """Reads every entry above the latest checkpoint and checks numbers, digests and ranges."""
    trail = Trail(topic, partition)
    numbers = _list_entries(store, trail)
    _read_checkpoint(store, trail)
    above = {kind: _above(trail, found) for kind, found in numbers.items()}
    last = max(above["commit"], default=trail.checkpoint.number if trail.checkpoint else 0)
    trail.next_number = last + 1
    first = trail.checkpoint.number + 1 if trail.checkpoint else 1
    previous = trail.checkpoint.last_digest if trail.checkpoint else ""
    for number in range(first, last + 1):
        previous = _read_pair(store, trail, number, previous)
    trail.last_digest = previous
    for number in sorted(above["intent"]):
        if number > last + 1:
            trail.found("entry-missing", f"intent {number} stands without entry {last + 1}")
    return trail


def _list_entries(store: Store, trail: Trail) -> dict[layout.EntryKind, set[int]]:
    numbers: dict[layout.EntryKind, set[int]] = {"intent": set(), "commit": set()}
    checkpoints = layout.checkpoints_folder(trail.topic, trail.partition)
    for item in store.walk(layout.log_folder(trail.topic, trail.partition)):
        parsed = layout.parse_entry_key(item.key)
        if parsed:
            numbers[parsed[3]].add(parsed[2])
        elif not item.key.startswith(f"{checkpoints}/"):
            trail.found("entry-unexpected", "not a name of an entry", path=item.key)
    return numbers


def _above(trail: Trail, numbers: set[int]) -> set[int]:
    cut = trail.checkpoint.number if trail.checkpoint else 0
    return {number for number in numbers if number > cut}


def _read_checkpoint(store: Store, trail: Trail) -> None:
    folder = layout.checkpoints_folder(trail.topic, trail.partition)
    keys = sorted(item.key for item in store.walk(folder))
    if not keys:
        return
    try:
        document = store.get(keys[-1])
        trail.checkpoint = decode(Checkpoint, document)
        trail.checkpoint_digest = digest(document)
    except (LakeError, LogError) as error:
        trail.found("entry-bad", str(error), path=keys[-1])


def _read_pair(store: Store, trail: Trail, number: int, previous: str) -> str:
    """Checks intent and commit `number`; the commit's digest ("" if it cannot be told)."""
    documents: dict[layout.EntryKind, bytes] = {}
    kinds: tuple[layout.EntryKind, layout.EntryKind] = ("intent", "commit")
    for kind in kinds:
        key = layout.entry_key(trail.topic, trail.partition, number, kind)
        document = store.get_or_none(key)
        if document is None:
            trail.found("entry-missing", f"{kind} {number}", offset=_reached(trail), path=key)
        else:
            documents[kind] = document
    try:
        intent = decode(Intent, documents["intent"]) if "intent" in documents else None
        commit = decode(Commit, documents["commit"]) if "commit" in documents else None
    except LogError as error:
        trail.found("entry-bad", f"entry {number}: {error}", offset=_reached(trail))
        return ""
    if intent and previous and intent.previous != previous:
        trail.found("chain-broken", f"intent {number}", offset=intent.start)
    if commit is None:
        return ""
    if intent:
        _check_pair(trail, intent, commit, digest(documents["intent"]))
    _check_range(trail, commit)
    trail.commits.append(commit)
    return digest(documents["commit"])


def _check_pair(trail: Trail, intent: Intent, commit: Commit, intent_digest: str) -> None:
    if commit.previous != intent_digest:
        trail.found("chain-broken", f"commit {commit.number}", offset=commit.start)
    expected = shared_fields(intent)
    if commit.superseded is not None:
        expected["end"] = intent.start
    where = (trail.topic, trail.partition, intent.number)
    if expected != shared_fields(commit) or where != (
        commit.topic,
        commit.partition,
        commit.number,
    ):
        trail.found("intent-differs", f"entry {commit.number}", offset=commit.start)


def _check_range(trail: Trail, commit: Commit) -> None:
    reached = _reached(trail)
    if (reached >= 0 and commit.start != reached) or commit.end < commit.start:
        trail.found(
            "range-broken",
            f"entry {commit.number} covers [{commit.start}, {commit.end}), expected from {reached}",
            offset=min(reached, commit.start),
        )


def _reached(trail: Trail) -> int:
    if trail.commits:
        return trail.commits[-1].end
    return trail.checkpoint.end if trail.checkpoint else -1
