"""Two years of events over every class, by a clock that is passed in and at times set back: late
events, producers' wrong clocks, holds, policies that change and are asked to reach stored rows,
crashed sweeps.  At every step no row past its deadline is readable and none is gone early; at the
end every removal has a receipt and a tombstone.

One seed gives one history; the long form walks every hour.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_samples import event, header

from pipeline import faultpoints
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.keystore import ENVIRONMENT
from pipeline.lake.layout import new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.cutting import cut_rewrites
from pipeline.retention.holds import HoldBook, Rows, add_hold, release_hold
from pipeline.retention.ledger import Ledger
from pipeline.retention.policy import DAY_US, HOUR_US, Policy
from pipeline.retention.shorten import Shortener
from pipeline.retention.sweep import KEEPING, Sweeper
from pipeline.retention.tombstones import read_tombstones
from pipeline.slices import MaskedSlice, Part
from schemas.parquet import EVENTS

START_US = 1_830_000_000_000_000  # 2027-12-28: a leap year and two year ends lie ahead
YEARS = 2
LIFETIMES = (("24h", "7d", "45d"), ("3d", "30d", "90d"))
STRUCTURE = Checks(leaks=False, newer=False, processes=1)
CRASHES = (
    "removal-intent.before", "removal-intent.after", "rewrite-intent.after",
    "rewrite-commit.before", "rewrite-commit.after", "remove.after", "receipt.before",
    "publish.after", "entry-link.before", "entry-link.after", "tidy.before",
)  # fmt: skip


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


def policy(debug: str, default: str, sealed: str) -> Policy:
    return Policy.model_validate(
        {
            "default": "default",
            "classes": {
                "debug": {"lifetime": debug, "bucket": "hour"},
                "default": {"lifetime": default, "bucket": "day"},
                "sealed": {"lifetime": sealed, "bucket": "day", "action": "seal-then-shred"},
                "legal": {"lifetime": "400d", "bucket": "day"},
            },
        }
    )


@dataclass
class World:
    """What is true: each stored row's deadline, when its bucket starts, from when it counts and its
    class, by offset; `seen_us` is the latest that the clock has shown."""

    store: Store
    random: random.Random
    now_us: int = START_US
    policy: Policy = field(default_factory=lambda: policy(*LIFETIMES[1]))
    next_offset: int = 0
    deadlines: dict[int, int] = field(default_factory=dict)
    starts_us: dict[int, int] = field(default_factory=dict)
    counted_us: dict[int, int] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    classes: dict[int, str] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    book: HoldBook = field(init=False)
    crashes: int = 0
    shortened: int = 0
    seen_us: int = START_US
    read: dict[Path, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.book = HoldBook(self.store)

    def write(self, count: int) -> None:
        """One slice; a row whose bucket has ended is refused, as the masker would."""
        rows: dict[tuple[str, str], list[dict[str, object]]] = {}
        start, refused = self.next_offset, 0
        for offset in range(start, start + count):
            name = self.random.choice(["debug", "default", "default", "sealed", "legal"])
            late_us = self.random.choice([0, 0, 0, HOUR_US, 2 * DAY_US, 40 * DAY_US, -3 * DAY_US])
            placed = self.policy.place(self.now_us - late_us, None, name, self.now_us)
            if placed.refused:
                refused += 1
                continue
            run = f"run-{offset % 7}"
            row = event(
                offset,
                run_id=run,
                occurred_at=self.now_us - late_us,
                ingested_at=self.now_us,
                deadline=placed.deadline_us,
                retention_from=placed.counted_from,
            )
            rows.setdefault((placed.retention_class, placed.expires), []).append(row)
            kept = self.policy.classes[name]
            self.deadlines[offset], self.runs[offset] = placed.deadline_us, run
            self.starts_us[offset] = kept.expires_us(placed.deadline_us)
            self.counted_us[offset] = placed.deadline_us - kept.lifetime_us
            self.classes[offset] = name
            self.alive.add(offset)
        self.next_offset = start + count
        self._commit(start, rows, refused)

    def _commit(
        self, start: int, rows: dict[tuple[str, str], list[dict[str, object]]], refused: int
    ) -> None:
        parts = []
        for (name, expires), listed in sorted(rows.items()):
            schema = EVENTS.with_metadata({"sealed": ""}) if name == "sealed" else EVENTS
            table = pa.Table.from_pylist(listed, schema=schema)
            parts.append(Part("events", name, expires, table))
        counts = {"events": self.next_offset - start - refused, "refused": refused}
        about = header(start, self.next_offset, now_us=self.now_us, counts=counts)
        writer = SliceCommitter(self.store, new_claim(), lambda: self.now_us)
        written = writer.write(MaskedSlice(about, tuple(parts)))
        assert written is not None
        writer.commit(written)

    def sweep(self) -> None:
        """One sweep, that may be killed."""
        self._do(self._sweep)

    def shorten(self) -> None:
        """Lets the policy reach stored rows; what is overdue by it goes within two hours."""
        self._do(self._shorten)
        soon_us = self.now_us - self.now_us % HOUR_US + 2 * HOUR_US
        for offset in self.alive:
            start_us = self.starts_us[offset]
            kept = self.policy.classes[self.classes[offset]]
            deadline_us = self.counted_us[offset] + kept.lifetime_us
            sooner_us = kept.expires_us(deadline_us)
            if start_us <= self.now_us or deadline_us >= self.deadlines[offset]:
                continue
            if sooner_us <= self.now_us:
                deadline_us = sooner_us = soon_us
            if sooner_us < start_us:
                self.deadlines[offset], self.starts_us[offset] = deadline_us, sooner_us
                self.shortened += 1

    def _do(self, work: Callable[[], None]) -> None:
        """One time in five the work is killed somewhere, and done again as the next would."""
        if self.random.random() < 0.2:
            faultpoints.install(self._kill())
            with suppress(Killed):
                work()
            faultpoints.install(None)
        work()

    def _kill(self):  # type: ignore[no-untyped-def]
        point, left = self.random.choice(CRASHES), self.random.randint(1, 3)

        def act(name: str) -> None:
            nonlocal left
            left -= name == point
            if name == point and left == 0:
                self.crashes += 1
                raise Killed

        return act

    def _sweep(self) -> None:
        receipt = Sweeper(self.store, new_claim(), "tester", lambda: self.now_us).sweep()
        assert receipt is None or receipt.is_complete

    def _shorten(self) -> None:
        shortener = Shortener(self.store, new_claim(), "tester", lambda: self.now_us, self.policy)
        receipt = shortener.shorten("the policy has changed")
        assert receipt is None or receipt.is_complete

    def held(self) -> set[int]:
        """The rows that a hold in force names, of those that were here at the last look."""
        return {
            offset
            for hold in self.book.read().active
            for offset in self.alive
            if (not hold.runs or self.runs[offset] in hold.runs)
            and (not hold.classes or self.classes[offset] in hold.classes)
        }

    def readable(self) -> set[int]:
        """What a plain reader of the folder finds; a file's name is never used for another one, so
        each is read once, and all of them anew now and then."""
        files = set(Path(self.store.location, "events").rglob("*.parquet"))
        if self.random.random() < 0.02:
            self.read.clear()
        read = self.random.choice([_by_pyarrow, _by_duckdb])
        self.read = {path: self.read.get(path) or read(path) for path in files}
        return {offset for offsets in self.read.values() for offset in offsets}

    def check(self) -> None:
        """By plain readers of the folder: nothing overdue is there, nothing early is gone, and what
        is gone stays so."""
        found, held = self.readable(), self.held()
        assert found <= self.alive
        assert held <= found
        for offset in found - held:
            assert self.deadlines[offset] > self.now_us, offset
        for offset in self.alive - found:
            assert self.starts_us[offset] <= self.seen_us, offset
        self.alive = found


def _by_pyarrow(path: Path) -> list[int]:
    rows = pq.ParquetFile(path).read(columns=["kafka_offset"])
    offsets: list[int] = rows["kafka_offset"].to_pylist()
    return offsets


def _by_duckdb(path: Path) -> list[int]:
    found = duckdb.execute("SELECT kafka_offset FROM read_parquet(?)", [str(path)]).fetchall()
    return [row[0] for row in found]


def live_through(world: World, step_us: int, *, writes: float, others: float) -> None:
    """Walks the clock; so often a step writes, or does something else: it holds, releases, merges,
    changes the policy, sums the log up."""
    end_us = START_US + YEARS * 366 * DAY_US
    about = {"by": "tester", "reason": "case", "owner": "legal", "review_on": "2030-01-01"}
    while world.now_us < end_us:
        drawn = world.random.random()
        if world.random.random() < writes:
            world.write(world.random.randint(1, 12))
        if drawn < 0.2 * others:
            run = f"run-{world.random.randrange(7)}"
            name = world.random.choice([(), ("debug",), ("default",)])
            add_hold(world.store, Rows(runs=(run,), classes=name), now_us=world.now_us, **about)
        elif drawn < 0.5 * others and (active := world.book.read().active):
            number = world.random.choice(active).number
            release_hold(world.store, number, now_us=world.now_us, by="tester", reason="closed")
        elif drawn < 0.7 * others:
            rewriter = Rewriter(world.store, new_claim(), world.now_us)
            files = read_lake(world.store).files["events"]
            buckets = sorted({bucket for file in files if (bucket := parse_bucket(file.path))})
            for bucket in buckets[:2]:
                rewriter.compact(bucket)
        elif drawn < 0.95 * others:
            world.policy = policy(*world.random.choice(LIFETIMES))
            if world.random.random() < 0.8:
                world.shorten()
        elif drawn < others:
            cut_all(world.store)
            cut_rewrites(world.store, world.now_us)
        world.now_us += step_us if world.random.random() < 0.98 else -3 * HOUR_US
        world.seen_us = max(world.seen_us, world.now_us)
        world.sweep()
        world.check()


def check_the_end(world: World) -> None:
    """Everything accounted for: log, receipts, tombstones."""
    codes = {found.code for found in verify(world.store.location, STRUCTURE).findings}
    assert codes <= {"document-missing", "row-misplaced"}, codes
    ledger = Ledger(world.store, "")
    assert ledger.check() == ()
    receipts = [receipt for _, receipt in ledger.entries() if receipt is not None]
    receipted = sorted(
        (each.table, each.retention_class, each.expires, number)
        for receipt in receipts
        for each in receipt.buckets
        for number in each.rewrites
    )
    removals = sorted(
        (each.table, each.retention_class, each.expires, each.number)
        for each in read_lake(world.store).rewrites
        if each.removed and each.purpose not in KEEPING
    )
    tombstones = list(read_tombstones(world.store))
    buried = sorted((t.table, t.retention_class, t.expires, t.number) for t in tombstones)
    assert receipted == buried
    assert set(removals) <= set(buried)  # the rest was summed up
    world.read.clear()
    left = len(world.readable())
    assert sum(tombstone.rows for tombstone in tombstones) == len(world.deadlines) - left
    assert world.crashes > 0 and world.shortened > 0 and tombstones


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "keys"))
    return World(Store.open(tmp_path / "lake", create=True), random.Random(request.param))


@pytest.mark.parametrize("world", [1], indirect=True)
def test_two_years_in_steps_of_days_keep_every_deadline(world: World) -> None:
    try:
        live_through(world, 5 * DAY_US + 7 * HOUR_US, writes=0.25, others=0.1)
    finally:
        faultpoints.install(None)
    check_the_end(world)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("world", [3], indirect=True)
def test_two_years_hour_by_hour_keep_every_deadline(world: World) -> None:
    try:
        live_through(world, HOUR_US, writes=0.08, others=0.01)
    finally:
        faultpoints.install(None)
    check_the_end(world)
