"""Where recorded runs come from: a lake, a file of run events or of a known format, a bundle."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pipeline.errors import PipelineError, UsageError
from pipeline.formats import format_of, open_source
from pipeline.replay.bundle import read_bundle
from pipeline.replay.record import RecordedRun, recorded_run
from redactors import Redactor, Ruleset, RunMemory, parse_document
from schemas import DeclaredRedaction, Producer, RunEvent

if TYPE_CHECKING:
    from pipeline.lake.live import Lake
    from pipeline.records.access import Opener
    from pipeline.records.reading import RunView

CATCH_UP: Final = "run `redactory ingest --until-caught-up` first"


class Archive(Protocol):
    """Gives runs, masked, and the rules by which they were."""

    def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
        """One attempt at a run, the last if none is named; raises UsageError if there is none."""

    def ruleset_of(self, run: RecordedRun) -> Ruleset:
        """The rules that masked it."""


@dataclass(frozen=True, slots=True)
class LakeArchive:
    """The runs of a lake; each read is written down."""

    opener: "Opener"

    def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
        """As the lake stands now; the run's deadline is that of the first of its rows to go."""
        view = self.opener.open(run_id)
        rows = _of_attempt(view, attempt)
        if any(row["body"] is None for row in rows):
            raise PipelineError(
                "the content of this run is sealed, and its keys are not here",
                code="sealed",
                hint="name their key store with REDACTORY_BUCKET_KEYS; destroyed keys stay gone",
            )
        run = recorded_run(
            map(event_of_row, rows),
            key_ids=dict.fromkeys(row["key_id"] for row in rows),
            deadlines_us={row["event_id"]: _us(row["deadline"]) for row in rows},
        )
        run.deadline_us, run.files = _first_bucket_us(view), view.files
        return run

    def ruleset_of(self, run: RecordedRun) -> Ruleset:
        """The rules of the run's last row, from the lake's own log."""
        from pipeline.lake.documents import load_ruleset_document

        digest = run.events[-1].ruleset or ""
        return parse_document(load_ruleset_document(self.opener.lake.store, digest))

    def runs_of(self, sql: str) -> Iterator[RecordedRun]:
        """The runs whose ids a query gives in its first column."""
        from pipeline.lake.query import query

        ids = dict.fromkeys(str(row[0]) for row in query(self.opener.lake, sql).rows)
        return (self.run(run_id) for run_id in ids)


@dataclass(frozen=True, slots=True)
class FileArchive:
    """The runs in one file; events that are raw are masked as they are read, and kept in memory."""

    events: tuple[RunEvent, ...]
    ruleset: Ruleset

    @classmethod
    def open(cls, path: Path, redactor: Redactor, ruleset: Ruleset, now_us: int) -> "FileArchive":
        """Reads the file; raises UsageError if it is of no known format."""
        found = format_of(path)
        if found is None:
            raise UsageError(
                f"{path} shows none of the known formats", code="input-format", hint="see emit"
            )
        with open_source(path, now_us) as (source, _):
            return cls(tuple(masked(found.read(source), redactor)), ruleset)

    def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
        """The run in the file."""
        mine = [event for event in self.events if event.run_id == run_id]
        wanted = attempt or max((event.attempt for event in mine), default=0)
        return recorded_run(_some([event for event in mine if event.attempt == wanted]))

    def ruleset_of(self, run: RecordedRun) -> Ruleset:
        """Those that the file was read under."""
        return self.ruleset

    @property
    def run_ids(self) -> list[str]:
        """The runs in the file, in order."""
        return list(dict.fromkeys(event.run_id for event in self.events))


@dataclass(frozen=True, slots=True)
class BundleArchive:
    """The trials of a bundle: fixtures and inputs, no outcome to compare with."""

    trials: tuple[RecordedRun, ...]
    ruleset: Ruleset

    @classmethod
    def open(cls, path: Path, now_us: int) -> "BundleArchive":
        """Reads the bundle; raises PipelineError once it is past its deadline."""
        bundle = read_bundle(path)
        if bundle.deadline_us is not None and bundle.deadline_us <= now_us:
            raise PipelineError(
                f"{path} is past its deadline",
                code="expired",
                hint="`redactory retention sweep` removes it",
            )
        return cls(tuple(bundle.runs()), bundle.ruleset)

    def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
        """The trial of a run."""
        (trial, *_) = _some([run for run in self.trials if run.run_id == run_id])
        assert isinstance(trial, RecordedRun)
        return trial

    def ruleset_of(self, run: RecordedRun) -> Ruleset:
        """Those in the bundle."""
        return self.ruleset

    @property
    def run_ids(self) -> list[str]:
        """The runs in the bundle, in order."""
        return [run.run_id for run in self.trials]


def masked(events: Iterable[RunEvent], redactor: Redactor) -> Iterator[RunEvent]:
    """Events as an ingest would store them; what is masked already stays as it is."""
    memories: dict[str, RunMemory] = {}
    for event in events:
        memory = memories.setdefault(event.run_id, RunMemory())
        redacted = redactor.redact_json(event.body, memory)
        made = tuple(
            DeclaredRedaction(r.path, r.rule, r.label, r.action, r.span_start, r.span_end)
            for r in redacted.redactions
        )
        yield replace(event, body=redacted.text, redactions=(*event.redactions, *made))


def event_of_row(row: Any) -> RunEvent:
    """The event that a row of `events` holds."""
    names = ("event_id", "run_id", "sequence", "kind", "body", "attempt", "parent_run_id")
    more = ("retry_of", "kind_name", "name", "call_id", "idempotency_key", "ruleset")
    producer = row["producer"] or {}
    return RunEvent(
        **{name: row[name] for name in (*names, *more)},
        occurred_at=_us(row["occurred_at"]),
        producer=Producer(producer.get("name") or "", producer.get("version") or ""),
    )


def check_caught_up(
    lake: "Lake",
    view: "RunView",
    high_of: Callable[[str, int], int],
) -> None:
    """Raises PipelineError if the lake lags behind the topic where the run's events lie.

    `high_of` gives the offset after the last record of a topic's partition.
    """
    ends = {(h.topic, h.partition): h.position.next_offset or 0 for h in lake.histories}
    for place in {(row["kafka_topic"], row["kafka_partition"]) for row in view.events}:
        lag = high_of(*place) - ends.get(place, 0)
        if lag > 0:
            raise PipelineError(
                f"the lake is {lag} messages behind the topic: the run may have gone on",
                code="lake-lags",
                hint=CATCH_UP,
            )


def _of_attempt(view: "RunView", attempt: int | None) -> list[Any]:
    wanted = attempt or max((row["attempt"] for row in view.events), default=0)
    return _some([row for row in view.events if row["attempt"] == wanted])


def _some(found: list[Any]) -> list[Any]:
    if not found:
        raise UsageError(
            "there are no events of this run", code="unknown-run", hint="check RUN and --attempt"
        )
    return found


def _first_bucket_us(view: "RunView") -> int | None:
    from pipeline.lake.layout import parse_bucket

    buckets = (parse_bucket(path) for path in view.files)
    return min((bucket.starts_us for bucket in buckets if bucket is not None), default=None)


def _us(time: Any) -> int:
    if isinstance(time, datetime):
        seconds = int(time.replace(microsecond=0).timestamp())
        return seconds * 1_000_000 + time.microsecond
    return int(time)
