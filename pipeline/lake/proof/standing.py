"""Where a lake stands: the ends of its logs, its live files, and what else must never change."""

from collections import Counter
from collections.abc import Iterable

from pipeline.lake import layout
from pipeline.lake.entries import FileEntry, digest
from pipeline.lake.history import read_documents
from pipeline.lake.proof.findings import Head, Mark, Standing, TableCount
from pipeline.lake.proof.trail import Trail
from pipeline.lake.store import Store


def take_standing(store: Store, trails: Iterable[Trail], live: Iterable[FileEntry]) -> Standing:
    """Where the lake stands whose logs and live files have been read."""
    live = list(live)
    files: Counter[str] = Counter(file.table for file in live)
    rows: Counter[str] = Counter()
    for file in live:
        rows[file.table] += file.rows
    rewrites = read_documents(store, layout.REWRITES, ".commit")
    rulesets = read_documents(store, f"{layout.LOG}/rulesets")
    return Standing(
        tuple(head for trail in trails if (head := _head(trail)) is not None),
        {table: TableCount(files[table], rows[table]) for table in layout.TABLES},
        {file.path: file.sha256 for file in live},
        {key: digest(document) for key, document in rewrites.items()},
        {key.rpartition("/")[2]: digest(document) for key, document in rulesets.items()},
    )


def _head(trail: Trail) -> Head | None:
    """None for a log without a commit."""
    checkpoint, number = None, trail.next_number - 1
    start = end = first = 0
    if (cut := trail.checkpoint) is not None:
        checkpoint = Mark(cut.number, cut.start, cut.end, trail.checkpoint_digest)
        first, start, end = cut.start, cut.start, cut.end
    if trail.commits:
        start, end = trail.commits[-1].start, trail.commits[-1].end
        first = first if checkpoint else trail.commits[0].start
    commit = Mark(number, start, end, trail.last_digest)
    return Head(trail.topic, trail.partition, first, commit, checkpoint) if number else None
