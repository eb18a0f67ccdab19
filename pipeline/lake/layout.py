"""Where everything lies in a lake: the one place that forms and parses keys.

<table>/retention_class=<class>/expires=<YYYY-MM-DDTHH>/<topic>-<partition>-<number>.parquet
_log/<topic>/<partition>/<number>.intent | .commit      …/checkpoints/<number>
_log/<topic>/schemas/<id>
_log/rulesets|policies|schemas/<digest>                 _log/_rewrites/<table>/<class>/<expires>/…
_log/_cuts/<table>/<class>/<expires>/<number>
_state/<topic>/<partition>/<number>-<digest>   _audit/…   _tmp/<claim>/<topic>-<partition>/…

Keys are relative to the lake and use `/`; numbers have 12 digits, so that they sort as text.
"""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, get_args

from pipeline.errors import LogError
from pipeline.slices import Table

TABLES: Final[tuple[Table, ...]] = get_args(Table)
LOG, STATE, AUDIT, TMP = "_log", "_state", "_audit", "_tmp"
REWRITES = f"{LOG}/_rewrites"
CUTS = f"{LOG}/_cuts"
RULESETS = f"{LOG}/rulesets"
IDENTITY = f"{LOG}/lake-id"

EntryKind = Literal["intent", "commit"]

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_EXPIRES = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BUCKET = re.compile(
    r"(?P<table>events|runs|dead_letters)/retention_class=(?P<retention_class>[^/]+)"
    r"/expires=(?P<expires>[^/]+)/(?P<name>[^/]+)\.parquet"
)
_REWRITTEN = re.compile(r"rewritten-(?P<number>\d{12})-\d{3}\.parquet")
_MOVED = re.compile(
    r"moved-(?P<table>events|runs|dead_letters)-(?P<retention_class>.+)"
    r"-(?P<expires>\d{4}-\d{2}-\d{2}T\d{2})-(?P<number>\d{12})-\d{3}\.parquet"
)
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})-(?P<number>\d{12})")
_ENTRY = re.compile(
    rf"{LOG}/(?P<topic>[^/]+)/(?P<partition>\d{{1,10}})/(?P<number>\d{{12}})\.(?P<kind>intent|commit)"
)
_STATE = re.compile(r"(?P<number>\d{12})-(?P<digest>[0-9a-f]{64})")
_PARTITION = re.compile(rf"{LOG}/(?P<topic>[^/]+)/(?P<partition>\d{{1,10}})")


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """The rows of a table that expire together; `expires` is "YYYY-MM-DDTHH", UTC."""

    table: Table
    retention_class: str
    expires: str

    @property
    def is_valid(self) -> bool:
        return bool(_CLASS.fullmatch(self.retention_class)) and is_expires(self.expires)

    @property
    def starts_us(self) -> int:
        """When the bucket goes: the start of its hour or day, in epoch microseconds."""
        start = datetime.strptime(self.expires, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        return int(start.timestamp()) * 1_000_000

    @property
    def log_folder(self) -> str:
        """Where the rewrites of the bucket are logged."""
        return f"{REWRITES}/{self.table}/{self.retention_class}/{self.expires}"

    @property
    def cuts_folder(self) -> str:
        """Where it stands up to which number those were summed up."""
        return f"{CUTS}/{self.table}/{self.retention_class}/{self.expires}"

    def rewritten_key(self, number: int, index: int) -> str:
        """The `index`-th file that rewrite `number` adds to the bucket."""
        return f"{self.folder}/rewritten-{number:012}-{index:03}.parquet"

    def moved_key(self, source: "Bucket", number: int, index: int) -> str:
        """The `index`-th file that rewrite `number` of another bucket, `source`, adds to this."""
        name = f"{source.table}-{source.retention_class}-{source.expires}"
        return f"{self.folder}/moved-{name}-{number:012}-{index:03}.parquet"

    @property
    def folder(self) -> str:
        return f"{self.table}/retention_class={self.retention_class}/expires={self.expires}"


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    """One Parquet file: what slice `number` of a partition added to a bucket."""

    bucket: Bucket
    topic: str
    partition: int
    number: int

    def __post_init__(self) -> None:
        check_topic(self.topic)
        if not self.bucket.is_valid:
            raise LogError("a retention class or bucket has no valid name", code="bad-bucket")

    @property
    def key(self) -> str:
        return f"{self.bucket.folder}/{self.topic}-{self.partition}-{self.number:012}.parquet"

    def tmp_key(self, claim: str) -> str:
        """Where writer `claim` writes the file before it is published."""
        name = f"{self.number:012}-{self.bucket.folder.replace('/', '-')}"
        return f"{tmp_folder(claim, self.topic, self.partition)}/{name}"


def parse_bucket(key: str) -> Bucket | None:
    """The bucket in which a Parquet file named `key` stands; None if it is in none."""
    if not (found := _BUCKET.fullmatch(key)):
        return None
    table: Table = found["table"]  # type: ignore[assignment]  # the pattern names the tables
    bucket = Bucket(table, found["retention_class"], found["expires"])
    return bucket if bucket.is_valid else None


def parse_data_file(key: str) -> DataFile | None:
    """The file that `key` names; None where it is none that a slice could have written."""
    bucket, found = parse_bucket(key), _NAME.fullmatch(key.rpartition("/")[2][: -len(".parquet")])
    if bucket is None or found is None or not _TOPIC.fullmatch(found["topic"]):
        return None
    file = DataFile(bucket, found["topic"], int(found["partition"]), int(found["number"]))
    return file if file.key == key else None


def parse_rewritten(key: str) -> tuple[Bucket, int] | None:
    """(bucket, number) of the rewrite that could have made the file `key`; None if none could.

    The bucket is the one that was rewritten: for rows that were moved, another than the file's.
    """
    bucket, name = parse_bucket(key), key.rpartition("/")[2]
    if bucket is None:
        return None
    if found := _REWRITTEN.fullmatch(name):
        return bucket, int(found["number"])
    if found := _MOVED.fullmatch(name):
        table: Table = found["table"]  # type: ignore[assignment]  # the pattern names the tables
        source = Bucket(table, found["retention_class"], found["expires"])
        return (source, int(found["number"])) if source.is_valid else None
    return None


def check_topic(topic: str) -> None:
    """Raises `LogError` for what cannot be a Kafka topic, so that no key leaves its folder."""
    if not _TOPIC.fullmatch(topic):
        raise LogError("not the name of a Kafka topic", code="bad-topic")


def is_expires(text: str) -> bool:
    """Whether `text` names an hour as bucket folders do."""
    if not _EXPIRES.fullmatch(text):
        return False
    try:
        datetime.strptime(text, "%Y-%m-%dT%H")
    except ValueError:
        return False
    return True


def new_claim() -> str:
    """A random id for one writer."""
    return secrets.token_hex(16)


def log_folder(topic: str, partition: int) -> str:
    """Where the log of a partition stands."""
    check_topic(topic)
    return f"{LOG}/{topic}/{partition}"


def entry_key(topic: str, partition: int, number: int, kind: EntryKind) -> str:
    """Where entry `number` of a partition's log stands."""
    return f"{log_folder(topic, partition)}/{number:012}.{kind}"


def parse_entry_key(key: str) -> tuple[str, int, int, EntryKind] | None:
    """(topic, partition, number, kind) of a log entry's key; None for any other key."""
    if not (found := _ENTRY.fullmatch(key)):
        return None
    kind: EntryKind = "intent" if found["kind"] == "intent" else "commit"
    return found["topic"], int(found["partition"]), int(found["number"]), kind


def parse_log_folder(folder: str) -> tuple[str, int] | None:
    """(topic, partition) of a partition's log folder; None for any other folder."""
    found = _PARTITION.fullmatch(folder)
    return (found["topic"], int(found["partition"])) if found else None


def state_folder(topic: str, partition: int) -> str:
    """Where the open-run state of a partition is kept."""
    check_topic(topic)
    return f"{STATE}/{topic}/{partition}"


def state_key(topic: str, partition: int, number: int, digest: str) -> str:
    """The state document with this SHA-256, written for commit `number`.

    The digest is in the name: whoever redoes a commit never finds another's document in its place.
    """
    return f"{state_folder(topic, partition)}/{number:012}-{digest}"


def parse_state_key(key: str) -> tuple[int, str] | None:
    """(number, digest) of a state document's key; None for any other key."""
    found = _STATE.fullmatch(key.rpartition("/")[2])
    return (int(found["number"]), found["digest"]) if found else None


def checkpoints_folder(topic: str, partition: int) -> str:
    """Where the checkpoints of a partition's log stand, one file each, named by number."""
    return f"{log_folder(topic, partition)}/checkpoints"


def checkpoint_key(topic: str, partition: int, number: int) -> str:
    """Where the checkpoint at commit `number` stands."""
    return f"{checkpoints_folder(topic, partition)}/{number:012}"


def schema_folder(topic: str) -> str:
    """Where it stands which schema an id in a topic's messages names."""
    check_topic(topic)
    return f"{LOG}/{topic}/schemas"


def schema_key(topic: str, schema_id: str) -> str:
    """Where the digest of the schema stands that an id names."""
    return f"{schema_folder(topic)}/{schema_id}"


def document_key(kind: Literal["rulesets", "policies", "schemas"], digest: str) -> str:
    """Where the text of a ruleset, policy or schema is kept, by its SHA-256."""
    if not _DIGEST.fullmatch(digest):
        raise LogError("not a SHA-256 digest", code="bad-digest")
    return f"{LOG}/{kind}/{digest}"


def tmp_folder(claim: str, topic: str, partition: int) -> str:
    """Where writer `claim` keeps the unfinished files of one partition."""
    return f"{TMP}/{claim}/{topic}-{partition}"
