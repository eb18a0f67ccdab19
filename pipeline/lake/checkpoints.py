"""Cutting a partition's log: a checkpoint says what all before it came to, then that may go."""

from pipeline.lake import layout
from pipeline.lake.doubles import COUNT
from pipeline.lake.entries import PLAIN, SEVERAL, Checkpoint, encode
from pipeline.lake.history import partitions, read_history, read_rewrites
from pipeline.lake.log import PartitionLog
from pipeline.lake.provenance import swept_rows
from pipeline.lake.store import Store
from pipeline.lake.stretches import stretches


def write_checkpoint(store: Store, topic: str, partition: int) -> Checkpoint | None:
    """A checkpoint at the last commit; None if nothing was committed since the one before."""
    history = read_history(store, topic, partition)
    last = history.position.last_commit
    if last is None or not history.commits:
        return None
    swept = swept_rows(read_rewrites(store))
    before = history.checkpoint
    further = sum(c.further for c in history.commits) + (before.further if before else 0)
    every = list(history.files())
    files = tuple(file for file in every if swept.get(file.path, 0) < file.rows)
    stored = sum(file.rows for file in files if file.table != "runs")
    removed = sum(file.rows for file in every if file.table != "runs") - stored
    checkpoint = Checkpoint(
        topic,
        last.topic_id,
        partition,
        last.number,
        history.start or 0,
        last.end,
        files,
        rows=stored,
        removed=removed + (before.removed if before else 0),
        refused=sum(c.counts.get("refused", 0) for c in history.commits)
        + (before.refused if before else 0),
        expired=sum(c.expired for c in history.commits) + (before.expired if before else 0),
        gap_offsets=sum(c.gap_offsets for c in history.commits)
        + (before.gap_offsets if before else 0),
        last_digest=history.position.last_digest,
        doubled=sum(c.counts.get(COUNT, 0) for c in history.commits)
        + (before.doubled if before else 0),
        stretches=stretches(history),
        further=further,
        format=SEVERAL if further else PLAIN,
    )
    store.put_if_absent(layout.checkpoint_key(topic, partition, last.number), encode(checkpoint))
    return PartitionLog(store, topic, partition).checkpoint()


def truncate(store: Store, topic: str, partition: int) -> int:
    """Deletes the entries below the latest checkpoint, oldest first; how many there were.

    The checkpoint's own entry stays: the next one links to it.
    """
    cut = PartitionLog(store, topic, partition).checkpoint_number()
    below = [
        item.key
        for item in store.walk(layout.log_folder(topic, partition))
        if (parsed := layout.parse_entry_key(item.key)) and parsed[2] < cut
    ]
    older = [
        item.key
        for item in store.walk(layout.checkpoints_folder(topic, partition))
        if item.key < layout.checkpoint_key(topic, partition, cut)
    ]
    for key in sorted(below) + sorted(older):
        store.delete(key)
    return len(below)


def cut_all(store: Store) -> int:
    """Writes a checkpoint in every partition's log and truncates it; how many entries went."""
    for topic, partition in partitions(store):
        write_checkpoint(store, topic, partition)
    return sum(truncate(store, topic, partition) for topic, partition in partitions(store))
