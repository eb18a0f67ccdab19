"""Sweeps while an ingest runs: at its start, then at every full hour, when buckets end.

Each sweep also looks whether the raw topic keeps records longer than the policy.
"""

import getpass
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from pipeline.config import IngestConfig
from pipeline.errors import LostPartition, PipelineError
from pipeline.lake.commits import system_clock_us
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from pipeline.retention.ledger import Ledger
from pipeline.retention.policy import HOUR_US
from pipeline.retention.sweep import Sweeper
from pipeline.retention.topic import Drift, drift_of
from redactors import load_or_create_keys

RETRY_S: Final = 300.0
"""How soon a sweep that failed is tried again."""

PATIENCE_US: Final = HOUR_US // 6
"""How long another's unfinished sweep is left alone: it may still be at work."""

STRAYS_EVERY_US: Final = 24 * HOUR_US
"""How often the whole lake is looked through for files outside the live set."""


class SweepSchedule:
    """A context manager; `tell` is given a sentence when something would not go, `swept` after each
    sweep whether everything went and how many rows did."""

    def __init__(
        self,
        config: IngestConfig,
        tell: Callable[[str], None],
        clock_us: Callable[[], int] = system_clock_us,
        find_drift: Callable[[IngestConfig], Sequence[Drift]] = drift_of,
        swept: Callable[[bool, int], None] = lambda is_complete, rows: None,
    ) -> None:
        self._config, self._tell, self._clock_us = config, tell, clock_us
        self._find_drift, self._swept = find_drift, swept
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._strays_us = self._clock_us()

    def __enter__(self) -> "SweepSchedule":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            done = self._try("the sweep", self._sweep)
            self._try("the check of the topic", self._check_topic)
            if self._over.wait(_to_the_hour_s(self._clock_us()) if done else RETRY_S):
                return

    def _try(self, what: str, work: Callable[[], bool]) -> bool:
        """What `work` says, False if it failed: nothing may end the sweeping without a word."""
        try:
            return work()
        except LostPartition:
            return False  # another one sweeps
        except PipelineError as error:
            self._tell(f"{what} failed: {error}")
        except Exception as error:
            self._tell(f"{what} failed: {type(error).__name__}")  # its words may hold payload
        return False

    def _sweep(self) -> bool:
        """One sweep; whether everything went that was to go."""
        now_us = self._clock_us()
        store = Store.open(self._config.lake)
        left = Ledger(store, "").left_open()
        if left is not None and now_us - left.now_us < PATIENCE_US:
            return False
        keys, _ = load_or_create_keys(Path(self._config.keys) if self._config.keys else None)
        sweeper = Sweeper(store, new_claim(), getpass.getuser(), self._clock_us, keys)
        with_strays = now_us - self._strays_us >= STRAYS_EVERY_US
        receipt = sweeper.sweep(with_strays=with_strays)
        if with_strays:
            self._strays_us = now_us
        rows = sum(bucket.rows for bucket in receipt.buckets) if receipt else 0
        self._swept(receipt is None or receipt.is_complete, rows)
        if receipt is not None and not receipt.is_complete:
            self._tell(f"the sweep could not remove everything: see receipt {receipt.number}")
            return False
        return True

    def _check_topic(self) -> bool:
        drift = self._find_drift(self._config)
        for each in drift:
            self._tell(
                f"the topic has {each.setting} = {each.found}, the policy wants {each.wanted}: "
                f"redactory retention topic {self._config.topic} --repair"
            )
        return not drift


def _to_the_hour_s(now_us: int) -> float:
    return (HOUR_US - now_us % HOUR_US) / 1e6
