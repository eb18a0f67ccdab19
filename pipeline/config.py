"""What one ingest is told: plain values, so that it can be handed to any worker process.

Secrets stay references: workers read the key ring and the client configuration from their own
files, because a runner may keep what it is handed.
"""

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipeline.errors import UsageError

_INSTANCE = re.compile(r"(\d{1,5})/(\d{1,5})")


def parse_instance(text: str) -> tuple[int, int]:
    """(I, N) of "I/N" with 0 ≤ I < N, as a StatefulSet's ordinals run; else `UsageError`."""
    found = _INSTANCE.fullmatch(text)
    if found and (instance := int(found[1])) < (instances := int(found[2])):
        return instance, instances
    raise UsageError(
        "--instance takes I/N with I from 0 to N - 1",
        code="bad-instance",
        hint="of three instances the first is 0/3, the last 2/3",
    )


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """A slice is closed at the first limit it reaches; `age_s` is the flush interval."""

    records: int = 20_000
    size_bytes: int = 32 << 20
    age_s: float = 5.0


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """One ingest of one topic, or of some files, into one lake.

    `rules`, `keys`, `policy`, `client_config` and `registry_config` are file paths (None: the
    built-in or default one).  `registry` is the address of the schema registry, if there is one.
    `instance` of `instances` reads the partitions with `partition % instances == instance`.
    With `rules_public_key` the rules must be signed under it, in `rules_signature` (None: the file
    beside them).  `ruleset` is the digest of rules that the lake keeps; a worker goes by it, not by
    `rules`.
    `epoch_s` bounds the life of one pipeline; the next one starts from the log.  A run of which
    nothing came for `run_timeout_h` hours counts as abandoned.  With `delete_consumed` the topic's
    records are deleted once they are committed.  `files` (paths, each with the name of its format)
    are read in place of a topic; they are dealt out as partitions are, by their names.
    `encoding` says what a record of the topic is: "" an event, else a request of OTLP with several.
    `max_dead_letter_rate` is the largest part of the messages, from 0 to 1, that may become dead
    letters before the ingest stops.
    """

    bootstrap: str
    topic: str
    lake: str
    rules: str | None = None
    rules_public_key: str | None = None
    rules_signature: str | None = None
    ruleset: str | None = None
    keys: str | None = None
    policy: str | None = None
    client_config: str | None = None
    registry: str | None = None
    registry_config: str | None = None
    until_caught_up: bool = False
    limits: SliceLimits = SliceLimits()
    instance: int = 0
    instances: int = 1
    epoch_s: float = 300.0
    max_dead_letter_rate: float = 0.5
    run_timeout_h: float = 24.0
    delete_consumed: bool = False
    beam_options: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    encoding: str = ""

    @property
    def run_timeout_us(self) -> int:
        """The run time-out in microseconds."""
        return int(self.run_timeout_h * 3_600_000_000)

    @property
    def tick_s(self) -> float:
        """How often runs are looked through for those that have timed out."""
        return self.run_timeout_h * 3600 / 24

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "IngestConfig":
        fields = json.loads(text)
        fields["limits"] = SliceLimits(**fields["limits"])
        fields["beam_options"] = tuple(fields["beam_options"])
        fields["files"] = tuple((path, name) for path, name in fields["files"])
        return cls(**fields)

    def share(self, index: int, count: int) -> "IngestConfig":
        """What the worker `index` of `count` in this instance does: a part of its partitions."""
        return replace(
            self,
            instance=self.instance + index * self.instances,
            instances=self.instances * count,
        )

    @property
    def client_file(self) -> Path | None:
        """The file with the Kafka client's settings, if one was given."""
        return Path(self.client_config) if self.client_config else None

    @property
    def registry_file(self) -> Path | None:
        """The file with the registry client's settings, if one was given."""
        return Path(self.registry_config) if self.registry_config else None

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        """The files that this instance reads: all of one name, since they may be the same one."""
        first: dict[str, int] = {}
        for number, (path, _) in enumerate(self.files):
            first.setdefault(Path(path).name, number)
        return tuple(file for file in self.files if self.takes(first[Path(file[0]).name]))

    def takes(self, partition: int) -> bool:
        """Whether this instance reads `partition`."""
        return partition % self.instances == self.instance
