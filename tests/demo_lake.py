"""The demo agent's runs as a lake, without a broker."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.assemble import Assembler
from pipeline.building import SliceBuilder
from pipeline.demo_agent.agent import demo_events
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.masking import Coordinates, Masker
from pipeline.retention.policy import Policy, load_policy
from pipeline.slices import Message
from pipeline.state.chain import read_chain
from pipeline.state.memories import Memories
from pipeline.state.open_runs import memory_entries
from redactors import KeyRing, Redactor, Ruleset, load_ruleset, ruleset_document
from schemas import RunEvent, encode

SLICE = 150
TIMEOUT_US = 24 * 3_600_000_000


def ingest_events(
    folder: Path,
    events: Sequence[RunEvent],
    now_us: int,
    slice_records: int = SLICE,
    *,
    keys: KeyRing | None = None,
    restarts: bool = False,
    idle: bool = False,
    ruleset: Ruleset | None = None,
    policy: Policy | None = None,
    topic: str = "demo",
) -> Lake:
    """Masks, assembles and commits events as an ingest does; one partition of `topic`.

    With `restarts` each slice is read by a process that knows nothing but the lake; with `idle`
    nothing comes any more until all time-outs are over.  `ruleset` and `policy` None: the
    built-in ones.
    """
    store = Store.open(folder, create=True)
    ruleset, policy = ruleset or load_ruleset(), policy or load_policy()
    keys = keys or KeyRing.generate()
    masker = Masker(Redactor(ruleset, keys), policy)
    store_policy(store, policy.digest, policy.document)
    store_ruleset(store, masker.redactor.digest, ruleset_document(ruleset))
    memories, at = Memories(keys, {}), Coordinates(topic, 0)
    assembler = Assembler(store, TIMEOUT_US)
    committer = SliceCommitter(store, "c" * 32)
    starts = [*range(0, len(events), slice_records), *([len(events)] if idle else ())]
    for start in starts:
        if start == len(events):
            now_us += TIMEOUT_US
        if restarts:
            memories, assembler = _memories(store, topic, keys), Assembler(store, TIMEOUT_US)
        builder = SliceBuilder(start, now_us, 0.0, memories)
        for offset, event in enumerate(events[start : start + slice_records], start=start):
            raw = Message(offset, now_us, event.run_id.encode(), encode(event))
            builder.take([raw], masker, at)
        masked = builder.finish("id", masker, at)
        assembled = assembler.assemble(masked)
        assert assembled is not None
        written = committer.write(assembled)
        assert written is not None
        committer.commit(written)
    return read_lake(store)


def _memories(store: Store, topic: str, keys: KeyRing) -> Memories:
    last = PartitionLog(store, topic, 0).position().last_commit
    digest = last.state_digest if last else None
    return Memories(keys, memory_entries(read_chain(store, topic, 0, digest)))


def demo_lake(folder: Path, now_us: int, runs: int = 21) -> Lake:
    """So many runs of the demo agent."""
    return ingest_events(folder, list(demo_events(runs, 1, now_us)), now_us)
