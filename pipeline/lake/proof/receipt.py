"""A receipt of a verification, signed, and whether a lake continues what it says.

A log's chain proves each entry but the last, and nothing of entries that were cut off its end: a
receipt that is kept apart from the lake pins both.
"""

import hmac
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from pipeline.errors import LogError, ReceiptChanged, UsageError
from pipeline.lake import layout
from pipeline.lake.entries import PLAIN, Rewrite, canonical, digest
from pipeline.lake.history import read_cuts
from pipeline.lake.log import PartitionLog
from pipeline.lake.proof.findings import Finding, Head, Report, Standing
from pipeline.lake.store import Store
from redactors import KeyRing

PURPOSE: Final = "receipt"
"""What the key ring's keys are used for here."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a verification found, under key `key_id` at `made_at_us` (epoch microseconds).

    `violations` counts those found by code; `with_rules`: the rules looked into the rows too.
    `files_digest` and `rewrites_digest` are the SHA-256 of lines "<sha256>  <path>" sorted by path,
    as sha256sum writes them, of the live files and of the rewrites' commits.
    """

    key_id: str
    made_at_us: int
    with_rules: bool
    clean: bool
    violations: Mapping[str, int]
    files_digest: str
    rewrites_digest: str
    standing: Standing
    format: int = PLAIN


_ADAPTER: Final = TypeAdapter(Receipt)


def make_receipt(report: Report, key_id: str, now_us: int, *, with_rules: bool) -> Receipt:
    """The receipt of a report, yet to be signed."""
    return Receipt(
        key_id,
        now_us,
        with_rules,
        not report.violations,
        dict(Counter(found.code for found in report.violations)),
        _listing_digest(report.standing.files),
        _listing_digest(report.standing.rewrites),
        report.standing,
    )


def sign(receipt: Receipt, keys: KeyRing) -> bytes:
    """The receipt as canonical JSON with the HMAC-SHA-256 (hex) of all else as `signature`."""
    return _sign(asdict(receipt), keys)


def read_signed(document: bytes, keys: KeyRing) -> Receipt:
    """The receipt in a signed document.

    Raises `ReceiptChanged` if it is not byte for byte what was signed, `LogError` if it was signed
    under a key that is not in the ring or by a newer version.
    """
    try:
        body = json.loads(document)
        del body["signature"]
        key_id = body["key_id"]
        if key_id in keys.keys and hmac.compare_digest(_sign(body, keys), document):
            if body["format"] > PLAIN:
                raise LogError(
                    "the receipt is of a newer version", code="newer-format", hint="upgrade"
                )
            return _ADAPTER.validate_json(canonical(body), strict=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _changed() from None
    if key_id in keys.keys:
        raise _changed()
    raise LogError(
        "the receipt names a key that is not in your key ring",
        code="receipt-key",
        hint="give the ring it was signed with (--keys)",
    )


def load_receipt(path: Path, keys: KeyRing) -> Receipt:
    """The receipt in a file; errors as `read_signed`, `OSError` if it cannot be read."""
    return read_signed(path.read_bytes(), keys)


def check_new(path: Path) -> None:
    """Raises `UsageError` if a receipt cannot be written to `path`: none is ever replaced."""
    if path.exists() or not path.parent.is_dir():
        raise UsageError(
            f"{path} exists already or has no folder",
            code="receipt-file",
            hint="name a new file for the receipt",
        )


def save_receipt(
    path: Path, report: Report, keys: KeyRing, now_us: int, *, with_rules: bool
) -> None:
    """Writes the signed receipt of a report; `FileExistsError` if the file is there meanwhile."""
    document = sign(make_receipt(report, keys.current, now_us, with_rules=with_rules), keys)
    with path.open("xb") as file:
        file.write(document)
        file.flush()
        os.fsync(file.fileno())


def against_receipt(
    store: Store, standing: Standing, rewrites: Iterable[Rewrite], receipt: Receipt
) -> Iterator[Finding]:
    """Where the lake that stands so does not continue the receipt."""
    then = receipt.standing
    heads = {(head.topic, head.partition): head for head in standing.heads}
    for head in then.heads:
        yield from _check_head(store, head, heads.get((head.topic, head.partition)))
    removed = {file.path: file.sha256 for rewrite in rewrites for file in rewrite.removed}
    cuts = read_cuts(store)
    files = {path: sha256 for path, sha256 in then.files.items() if not _was_cut(path, cuts)}
    yield from _compare(files, removed | dict(standing.files))
    yield from _compare(
        {
            path: expected
            for path, expected in then.rewrites.items()
            if int(path.rpartition("/")[2][:12]) > cuts.get(path.rpartition("/")[0], 0)
        },
        standing.rewrites,
    )
    yield from _compare(then.rulesets, standing.rulesets)


def _check_head(store: Store, then: Head, now: Head | None) -> Iterator[Finding]:
    def found(code: str, offset: int, detail: str) -> Finding:
        return Finding(then.topic, then.partition, offset, code, detail=detail)

    if now is None:
        yield found("receipt-behind", then.start, "no commit stands any more")
        return
    if now.start != then.start:
        yield found("receipt-differs", min(now.start, then.start), "first offset of the log")
    if now.commit.number < then.commit.number:
        last = f"commit {now.commit.number} is the last, it was {then.commit.number}"
        yield found("receipt-behind", now.commit.end, last)
    elif code := _check_entry(store, then):
        yield found(code, then.commit.start, f"commit {then.commit.number}")
    elif now.commit.end < then.commit.end:
        yield found("receipt-behind", now.commit.end, f"the log went on to {then.commit.end}")
    if (cut := then.checkpoint) is None:
        return
    if now.checkpoint is None or now.checkpoint.number < cut.number:
        yield found("receipt-missing", cut.start, f"checkpoint {cut.number}")
    elif now.checkpoint.number == cut.number and now.checkpoint.digest != cut.digest:
        yield found("receipt-differs", cut.start, f"checkpoint {cut.number}")


def _check_entry(store: Store, then: Head) -> str:
    """The code of what is wrong with the last commit of a receipt, "" if nothing is."""
    at, number = (then.topic, then.partition), then.commit.number
    document = store.get_or_none(layout.entry_key(*at, number, "commit"))
    if document is not None:
        return "" if digest(document) == then.commit.digest else "receipt-differs"
    # Asked after the entry: a checkpoint is written before what it covers is deleted.
    return "" if PartitionLog(store, *at).checkpoint_number() > number else "receipt-missing"


def _was_cut(path: str, cuts: Mapping[str, int]) -> bool:
    """Whether a file lay in a bucket of which nothing is left, its rewrites summed up."""
    bucket = layout.parse_bucket(path)
    return bucket is not None and bucket.log_folder in cuts


def _compare(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Finding]:
    for path, expected in sorted(then.items()):
        if now.get(path) != expected:
            code = "receipt-differs" if path in now else "receipt-missing"
            file = layout.parse_data_file(path)
            where = (file.topic, file.partition) if file else ("", -1)
            detail = f"of commit {file.number}" if file else ""
            yield Finding(*where, code=code, path=path, detail=detail)


def _listing_digest(digests: Mapping[str, str]) -> str:
    lines = (f"{found}  {path}\n" for path, found in sorted(digests.items()))
    return digest("".join(lines).encode())


def _sign(body: Mapping[str, Any], keys: KeyRing) -> bytes:
    signature = keys.digest(body["key_id"], PURPOSE, canonical(body)).hex()
    return canonical({**body, "signature": signature})


def _changed() -> ReceiptChanged:
    return ReceiptChanged(
        "the receipt is not what was signed",
        code="receipt-changed",
        hint="it was changed or cut short: use another copy, and find out who could write there",
    )
