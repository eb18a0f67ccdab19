"""Gathers and serves what an ingest tells of itself; whatever fails here never touches it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.lag import LagWatch
from pipeline.lake.documents import load_ruleset_document
from pipeline.lake.store import Store
from pipeline.metrics.otel import check_endpoint, sending
from pipeline.metrics.server import parse_address, serving
from pipeline.metrics.vitals import Vitals
from pipeline.supervisor import IngestReport
from redactors import parse_document

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where an ingest tells of itself: the address it answers on, the collector it sends to."""

    address: tuple[str, int] | None = None
    otlp: str | None = None

    @classmethod
    def of(cls, address: str | None, otlp: str | None) -> "Outlets":
        """From what a person gave; raises `UsageError`."""
        return cls(
            parse_address(address) if address else None, check_endpoint(otlp) if otlp else None
        )


class Monitor:
    """Takes what happens and swallows what fails: it is said once, the ingest goes on.

    While nobody is told, nothing is gathered either.
    """

    def __init__(self, vitals: Vitals, say: Say) -> None:
        self._vitals, self._say = vitals, say
        self._is_telling = self._has_said = False

    @contextmanager
    def telling(self, outlets: Outlets) -> Iterator[None]:
        """Serves and sends meanwhile, what is asked for."""
        self._is_telling = outlets != Outlets()
        address, otlp = outlets.address, outlets.otlp
        served = serving(address, self._vitals, self._say) if address else nullcontext()
        with served, sending(otlp, self._vitals) if otlp else nullcontext():
            yield

    def update(self, report: IngestReport, lag: LagWatch | None) -> None:
        """Takes over how far the ingest is."""
        self._try(lambda: self._vitals.update(report, lag))

    def take_up(self, digest: str) -> None:
        """Learns the rules with this digest, which the lake keeps."""

        def learn() -> None:
            store = Store.open(self._vitals.config.lake)
            self._vitals.take_up(parse_document(load_ruleset_document(store, digest)))

        self._try(learn)

    def swept(self, is_complete: bool, rows: int) -> None:
        """Notes a sweep."""
        self._try(lambda: self._vitals.swept(is_complete=is_complete, rows=rows))

    def _try(self, work: Callable[[], None]) -> None:
        if not self._is_telling:
            return
        try:
            work()
        except Exception as error:
            if not self._has_said:
                self._say(f"metrics are incomplete: {type(error).__name__}; the ingest goes on")
            self._has_said = True
