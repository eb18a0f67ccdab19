"""Watches the rules of an ingest that runs: changed ones are taken up, if they are good."""

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from pipeline.config import IngestConfig
from pipeline.errors import PipelineError
from pipeline.lake.store import Store
from pipeline.opening import keep_rules, rules_as_they_are
from redactors import RedactorsError
from redactors.signatures import signature_path

LOOK_S: Final = 1.0
"""How often is looked whether the files changed."""


State: TypeAlias = tuple[date, tuple[tuple[str, int, int, int] | None, ...]]


def state_of_rules(config: IngestConfig, today: date) -> State:
    """What is another whenever the files of the rules or of their signature are, or the day is."""
    rules = Path(config.rules or "")
    files = [rules, *sorted(rules.glob("*.yaml"))] if config.rules else []
    if config.rules and config.rules_public_key is not None:
        files.append(Path(config.rules_signature or signature_path(rules)))
    return today, tuple(map(_state_of, files))


def _state_of(path: Path) -> tuple[str, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return path.name, found.st_ino, found.st_mtime_ns, found.st_size


class RulesWatch:
    """A context manager; `take_up` is given the digest of changed rules, which the lake keeps then,
    `refuse` the reason why changed ones cannot be used: once, until they change again.  `judged` is
    the state of those that are in force.

    What changed is judged when it has stood still between two looks, so that a file that is being
    written is not taken for one that is done.  A day's end is a change, too: allowances expire.
    """

    def __init__(
        self,
        config: IngestConfig,
        take_up: Callable[[str], None],
        refuse: Callable[[str], None],
        judged: State,
        today: Callable[[], date] = date.today,
    ) -> None:
        self._config, self._take_up, self._refuse, self._today = config, take_up, refuse, today
        self._seen = self._judged = judged
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "RulesWatch":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """One look; judges what it finds, if that is new and was there at the last one."""
        state, before = state_of_rules(self._config, self._today()), self._seen
        self._seen = state
        if state == before and state != self._judged:
            self._judged = state
            self._judge()

    def _judge(self) -> None:
        try:
            rules = rules_as_they_are(self._config)
            if state_of_rules(self._config, self._today()) != self._judged:
                return  # changed while it was read: the next looks see to it
            keep_rules(Store.open(self._config.lake), rules)
        except (PipelineError, RedactorsError) as error:
            self._refuse(str(error))
        except Exception as error:
            self._refuse(type(error).__name__)  # a library's words are not repeated
        else:
            self._take_up(rules.redactor.digest)
