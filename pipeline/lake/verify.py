"""Proves a lake: its log is whole, its files are as committed, every offset is there once, and the
rules of each row find nothing in it.

Nothing is taken from the running parts: the log is read entry by entry and each file anew.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from pipeline.errors import LakeError, LogError
from pipeline.lake import layout
from pipeline.lake.documents import load_policy_document
from pipeline.lake.entries import Commit, FileEntry, Rewrite
from pipeline.lake.history import partitions, read_rewrites
from pipeline.lake.layout import document_key
from pipeline.lake.live import find_strays, read_lake
from pipeline.lake.proof.accounting import account
from pipeline.lake.proof.files import DAY_US, FileResult, FileTask, Origin, check_file
from pipeline.lake.proof.findings import Finding, PartitionReport, Report
from pipeline.lake.proof.leaks import LeakCheck
from pipeline.lake.proof.receipt import Receipt, against_receipt
from pipeline.lake.proof.standing import take_standing
from pipeline.lake.proof.topic import Source, against_topic
from pipeline.lake.proof.trail import Trail, read_trail
from pipeline.lake.proof.window import Window, paths_of, places_of
from pipeline.lake.provenance import swept_rows, unequal_rewrites
from pipeline.lake.store import Store
from pipeline.lake.tables import DECLARED
from redactors import KeyRing, load_ruleset
from redactors.keys import default_key_file

FEW_FILES = 8
"""Up to here starting processes costs more than they save."""

WIDTHS_US = {"hour": 3_600_000_000, "day": DAY_US}
"""The widths of buckets, as retention policies name them."""

Beside = Callable[[Store], Iterable[Finding]]
"""Checks what lies in the lake beside log and tables."""

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What to check beyond structure: paths, because worker processes load them themselves.

    `keys` is the key ring's file (None: keyed masks count as text); `newer` asks what the rules
    in `rules` (None: the built-in ones) would find besides; `topic` is where to compare with the
    records (None: not asked for).  Of the rows, only those of the slices in `window` are read.
    """

    leaks: bool = True
    newer: bool = True
    keys: Path | None = None
    rules: Path | None = None
    processes: int = os.cpu_count() or 1
    topic: Source | None = None
    window: Window | None = None

    @classmethod
    def of(
        cls,
        *,
        keys: Path | None,
        rules: Path | None,
        leaks: bool,
        processes: int | None,
        topic: Source | None,
        window: Window | None = None,
    ) -> "Checks":
        """The checks that a command line asks for; without `keys` the default ring, if any."""
        found = keys or default_key_file()
        return cls(
            leaks=leaks,
            keys=found if keys or found.exists() else None,
            rules=rules,
            processes=processes or os.cpu_count() or 1,
            topic=topic,
            window=window,
        )


def verify(
    location: str,
    checks: Checks,
    progress: Progress = lambda done, total: None,
    since: Receipt | None = None,
    beside: Beside = lambda store: (),
) -> Report:
    """Verifies the lake at `location`, and that it continues the receipt `since`.

    What is wrong stands in the report.
    Raises `LakeError` if the lake cannot be read at all.
    """
    store = Store.open(location)
    report = _verify(store, location, checks, progress, since, beside)
    missing = {found.path for found in report.findings if found.code == "file-missing"}
    if missing and missing & _removed_paths(store):
        # A sweep went on meanwhile.
        return _verify(store, location, checks, progress, since, beside)
    return report


def _removed_paths(store: Store) -> set[str]:
    return {file.path for rewrite in _read_rewrites(store, []) for file in rewrite.removed}


def _verify(
    store: Store,
    location: str,
    checks: Checks,
    progress: Progress,
    since: Receipt | None,
    beside: Beside,
) -> Report:
    findings: list[Finding] = []
    trails = [read_trail(store, *at) for at in partitions(store)]
    rewrites = _read_rewrites(store, findings)
    swept = swept_rows(rewrites)
    findings += [
        Finding(code="rewrite-differs", path=rewrite.added[0].path, detail=rewrite.purpose)
        for rewrite in unequal_rewrites(rewrites)
    ]
    tasks = _tasks(trails, rewrites, _Policies(store))
    asked = [checks.window.of(trail) for trail in trails] if checks.window else trails
    paths = paths_of(asked, rewrites) if checks.window else {task.entry.path for task in tasks}
    chosen = [task for task in tasks if task.entry.path in paths]
    results = []
    for result in _check_files(location, chosen, checks):
        results.append(result)
        progress(len(results), len(chosen))
    partition_reports = tuple(
        _account(trail, results, swept, is_part=checks.window is not None) for trail in asked
    )
    is_log_whole = not any(trail.findings for trail in trails)
    findings += [finding for trail in trails for finding in trail.findings]
    findings += _missing_documents(store, trails)
    findings += beside(store)
    findings += [finding for result in results for finding in result.findings]
    next_numbers = {(trail.topic, trail.partition): trail.next_number for trail in trails}
    strays = find_strays(store, {task.entry.path for task in tasks}, next_numbers, rewrites)
    findings += [Finding(code="file-outside", path=path) for path in strays.outside]
    standing = take_standing(store, trails, [task.entry for task in tasks])
    if since is not None:
        findings += against_receipt(store, standing, rewrites, since)
    compared = 0
    if checks.topic is not None and is_log_whole:
        for batch in against_topic(read_lake(store), checks.topic):
            compared += batch.records
            findings += batch.findings
    rows = sum(result.rows for result in results)
    return Report(
        partition_reports,
        tuple(sorted(findings)),
        len(chosen),
        rows,
        standing,
        strays.pending,
        compared,
    )


def _account(
    trail: Trail, results: Iterable[FileResult], swept: Mapping[str, int], *, is_part: bool
) -> PartitionReport:
    at = trail.topic, trail.partition
    found = [result.places[at] for result in results if at in result.places]
    stored = np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64)
    if is_part:  # a file that was made of several slices holds others' rows, too
        stored = places_of(trail, stored)
    return account(trail, stored, swept, trail.findings)


def _read_rewrites(store: Store, findings: list[Finding]) -> tuple[Rewrite, ...]:
    try:
        return read_rewrites(store)
    except LogError as error:
        findings.append(Finding(code="entry-bad", path=layout.REWRITES, detail=str(error)))
        return ()


class _Policies:
    """The widths of the buckets by the policies that the log keeps, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_digest: dict[str, Mapping[str, int]] = {}

    def bucket_us(self, digest: str, file: FileEntry) -> int:
        """The width of the buckets of the file's class; a day if the policy does not tell."""
        if digest not in self._by_digest:
            self._by_digest[digest] = self._widths(digest)
        bucket = layout.parse_bucket(file.path)
        return self._by_digest[digest].get(bucket.retention_class, DAY_US) if bucket else DAY_US

    def _widths(self, digest: str) -> Mapping[str, int]:
        try:
            policy = json.loads(load_policy_document(self._store, digest))
            return {name: WIDTHS_US[c["bucket"]] for name, c in policy["classes"].items()}
        except (LakeError, ValueError, KeyError):
            return {}


def _tasks(
    trails: Iterable[Trail], rewrites: Iterable[Rewrite], policies: _Policies
) -> list[FileTask]:
    """The live files, each with the slice it came from."""
    tasks: dict[str, FileTask] = {}
    for trail in trails:
        for commit in trail.commits:
            tasks |= {
                file.path: FileTask(file, _origin(commit), policies.bucket_us(commit.policy, file))
                for file in commit.files
            }
        if trail.checkpoint is not None:
            tasks |= {file.path: FileTask(file, None) for file in trail.checkpoint.files}
    for rewrite in rewrites:
        tasks |= {file.path: FileTask(file, None) for file in rewrite.added}
    for rewrite in rewrites:
        for file in rewrite.removed:
            tasks.pop(file.path, None)
    return [task for _, task in sorted(tasks.items()) if task.entry.table in DECLARED]


def _origin(commit: Commit) -> Origin:
    return Origin(
        commit.topic,
        commit.partition,
        commit.start,
        commit.end,
        commit.now_us,
        commit.ruleset,
        commit.key_id,
    )


def _check_files(location: str, tasks: list[FileTask], checks: Checks) -> Iterator[FileResult]:
    """Checks files, many at once; the order of the results is that of the tasks."""
    if checks.processes == 1 or len(tasks) <= FEW_FILES:
        checker = _Checker(location, checks)
        yield from map(checker.check, tasks)
        return
    # Forking would copy the threads' locks of Arrow and the object store.
    with ProcessPoolExecutor(
        checks.processes, get_context("spawn"), _start_worker, (location, checks)
    ) as pool:
        yield from pool.map(_check_in_worker, tasks, chunksize=4)


class _Checker:
    """Store and rules of one process."""

    def __init__(self, location: str, checks: Checks) -> None:
        self._store = Store.open(location)
        self._leaks: LeakCheck | None = None
        if checks.leaks:
            keys = KeyRing.load(checks.keys) if checks.keys else None
            newer = load_ruleset(checks.rules) if checks.newer else None
            self._leaks = LeakCheck(self._store, keys, newer)

    def check(self, task: FileTask) -> FileResult:
        return check_file(self._store, task, self._leaks)


_checker: _Checker | None = None


def _start_worker(location: str, checks: Checks) -> None:
    global _checker
    _checker = _Checker(location, checks)


def _check_in_worker(task: FileTask) -> FileResult:
    assert _checker is not None
    return _checker.check(task)


def _missing_documents(store: Store, trails: Iterable[Trail]) -> Iterator[Finding]:
    """Rulesets and policies that commits name and the log has not kept."""
    commits = [commit for trail in trails for commit in trail.commits]
    named = {document_key("rulesets", c.ruleset) for c in commits}
    named |= {document_key("policies", c.policy) for c in commits}
    yield from (
        Finding(code="document-missing", path=key) for key in sorted(named) if not store.exists(key)
    )
