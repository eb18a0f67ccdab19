"""What lies on this machine: versions, key file, rules and policy."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from confluent_kafka import libversion
from packaging.requirements import Requirement

from pipeline.config import IngestConfig
from pipeline.doctor.findings import Finding
from pipeline.lake.keystore import check_outside
from pipeline.opening import check_signing, ruleset_in_files
from pipeline.retention.policy import HOUR_US, load_policy
from redactors import KeyRing, Redactor
from redactors.keys import default_key_file

BLOCKS: Final = (
    *("apache-beam", "confluent-kafka", "pyarrow", "obstore", "duckdb"),
    *("hyperscan", "google-re2"),
)
"""The libraries whose versions are told; all that are asked for are compared."""

DAY_S: Final = 86_400.0
OLD_KEY_S: Final = 365 * DAY_S
"""From this age on a key should not be the current one any more."""


def versions() -> Iterator[Finding]:
    """Python's, ours and the building blocks', against what this package asks for."""
    missing, other = [], []
    for requirement in map(Requirement, requires("redactory") or ()):
        if requirement.marker and not requirement.marker.evaluate({"extra": "pipeline"}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            other.append(f"{requirement.name} {found} where {requirement.specifier} is asked for")
    if missing:
        advice = "pip install 'redactory[pipeline]'"
        yield Finding("fail", "versions", f"not installed: {', '.join(missing)}", advice)
    if other:
        yield Finding("warn", "versions", "; ".join(other), "it was never tried: install that")
    if not missing and not other:
        blocks = [f"{name} {version(name)}" for name in ("redactory", *BLOCKS)]
        seen = [f"Python {platform.python_version()}", *blocks, f"librdkafka {libversion()[0]}"]
        yield Finding("ok", "versions", ", ".join(seen))


def keys(config: IngestConfig, now_s: float) -> Iterator[Finding]:
    """The key file: there, ours alone, outside the lake; its current key, and how old it is."""
    file = Path(config.keys) if config.keys else default_key_file()
    if config.lake and "://" not in config.lake:
        check_outside(file, Path(config.lake).expanduser())
    if not file.exists():
        advice = "the first ingest makes one; instances that share a lake must share its keys"
        yield Finding("warn", "keys", f"there is no key file {file}", advice)
        return
    ring = KeyRing.load(file)
    about = file.stat()
    age_s = max(0.0, now_s - about.st_mtime)
    seen = (
        f"{file} (mode {about.st_mode & 0o777:04o}) has {len(ring.keys)}, current is "
        f"{ring.current}, changed {age_s / DAY_S:.0f} days ago"
    )
    if age_s > OLD_KEY_S:
        advice = "write under a fresh key: KeyRing.rotated() keeps the old ones for recognition"
        yield Finding("warn", "keys", seen, advice)
    else:
        yield Finding("ok", "keys", seen)


def rules(config: IngestConfig) -> Iterator[Finding]:
    """Whether the rules load, are signed where they must be, and compile."""
    check_signing(config)
    ruleset = ruleset_in_files(config.rules, config.rules_public_key, config.rules_signature)
    digest = Redactor(ruleset, None).digest
    count = len(ruleset.rules) + len(ruleset.fields) + len(ruleset.recognizers)
    yield Finding("ok", "rules", f"{ruleset.name} {ruleset.version}, {count} rules, {digest}")


def policy(config: IngestConfig) -> Iterator[Finding]:
    """Whether the retention policy loads."""
    loaded = load_policy(Path(config.policy) if config.policy else None)
    shortest = min(each.lifetime_us for each in loaded.classes.values()) / HOUR_US
    seen = f"{len(loaded.classes)} classes, the shortest {shortest:g} hours, {loaded.digest}"
    yield Finding("ok", "policy", seen)
