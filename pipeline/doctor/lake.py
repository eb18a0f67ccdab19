"""Whether the lake can be written as the commit protocol needs it."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline.config import IngestConfig
from pipeline.doctor.clock import compare
from pipeline.doctor.findings import Finding
from pipeline.errors import LakeError, LakeUnusable
from pipeline.kafka import describe_topic
from pipeline.lake.layout import TMP
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from redactors import KeyRing
from redactors.keys import default_key_file


def lake(config: IngestConfig, now_s: Callable[[], float]) -> Iterator[Finding]:
    """Opens the lake and puts a probe there, which is removed again."""
    try:
        store = Store.open(config.lake)
    except LakeUnusable:
        raise
    except LakeError as error:
        if error.code != "no-lake":
            raise
        yield _to_be_made(Path(config.lake.removeprefix("file://")).expanduser().absolute())
        return
    store.check_writable()
    yield Finding("ok", "lake", "it can be written, and what is written be removed")
    yield from probe(store, now_s)


def log(config: IngestConfig) -> Iterator[Finding]:
    """Where the lake's log goes on, against the topic and the key ring: it must be able to."""
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    file = Path(config.keys) if config.keys else default_key_file()
    keys = KeyRing.load(file).keys if file.exists() else {}
    store = Store.open(config.lake)
    begun = 0
    for partition in filter(config.takes, topic.partitions):
        position = PartitionLog(store, config.topic, partition).position()
        begun += position.topic_id != ""
        if position.topic_id not in ("", topic.topic_id):
            seen = f"{config.topic} is not the topic that this lake has read (it was made again)"
            yield Finding("fail", "log", seen, "read it into a new lake, or under another name")
            return
        intent = position.open_intent
        if intent is not None and intent.key_id not in keys:
            seen = f"partition {partition} was begun under key {intent.key_id}, which is not there"
            advice = "add the key to the ring, or give the slice up: redactory log supersede"
            yield Finding("fail", "log", seen, advice)
            return
    yield Finding("ok", "log", f"an ingest goes on with {begun} partitions and begins the others")


def _to_be_made(place: Path) -> Finding:
    above = next(each for each in place.parents if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        advice = "name a directory that you can write to"
        return Finding("fail", "lake", f"it is not there and cannot be made in {above}", advice)
    advice = "an ingest makes it; then examine it again"
    return Finding("warn", "lake", "there is none in this directory", advice)


def probe(store: Store, now_s: Callable[[], float]) -> Iterator[Finding]:
    """Puts one object twice where nothing may stand: the second must be refused."""
    key = f"{TMP}/put/{secrets.token_hex(16)}"
    try:
        put = store.put_if_absent(key, b"first"), store.put_if_absent(key, b"second")
        written_s, kept = store.written_us(key) / 1e6, store.get(key)
    finally:
        store.delete(key)
    if put == (True, False) and kept == b"first":
        yield Finding("ok", "put-if-absent", "what stands there is not replaced")
    else:
        advice = "use a store with conditional writes (If-None-Match): two ingests would both win"
        yield Finding("fail", "put-if-absent", "the store replaces what stands there", advice)
    yield compare("the clock of the lake's store", written_s, now_s())
