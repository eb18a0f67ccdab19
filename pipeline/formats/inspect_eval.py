"""`inspect-eval`: a log of Inspect as it writes them by default, `.eval`; a sample is one run.

The file is a ZIP archive.  Its samples lie in `samples/`, a JSON file each, and are told as those
of a log in one JSON text (`inspect`), which has the table of events; what that log has at its top
stands in `header.json`, or in `_journal/start.json` while the evaluation runs.  Ids are derived
from the content of the archive.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from pipeline.formats.base import FILE_MAX_BYTES, Format, Source, derived_id, parse_json
from pipeline.formats.inspect_ai import is_whole, told
from pipeline.formats.run import Run
from schemas import RunEvent

_NAMES: Final = (b"_journal/", b"samples/", b"header.json", b"summaries.json")
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""Signature, length of the name, length of what stands behind it."""

_HEADERS: Final = ("header.json", "_journal/start.json")


def sniff(head: bytes) -> bool:
    """Whether a ZIP archive begins with one of the files of a log."""
    if len(head) < _LOCAL_HEADER.size:
        return False
    signature, length, _ = _LOCAL_HEADER.unpack_from(head)
    name = head[_LOCAL_HEADER.size :][:length]
    return signature == b"PK\x03\x04" and name.startswith(_NAMES)


def read(source: Source) -> Iterator[RunEvent]:
    """One run for each sample, in the order in which they stand in the archive."""
    # The stubs do not know that any BinaryIO will do.
    digest = hashlib.file_digest(source.stream, "sha256").hexdigest()  # type: ignore[arg-type]
    with _opened(source) as archive:
        names = archive.namelist()
        header = next((name for name in _HEADERS if name in names), None)
        log = _value(source, archive, header) if header else None
        if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
            source.fail("this is not an archive of an evaluation")
        samples = [n for n in names if n.startswith("samples/") and n.endswith(".json")]
        for index, name in enumerate(samples):
            sample = _value(source, archive, name)
            if not is_whole(sample):
                source.fail(f"sample {index} has no messages and events as Inspect writes them")
            run = Run(derived_id("inspect", digest, index), "inspect", source.captured_at_us)
            yield from told(log, sample, run)


@contextmanager
def _opened(source: Source) -> Iterator[ZipFile]:
    try:
        with ZipFile(source.stream) as archive:
            yield archive
    except (BadZipFile, EOFError, zlib.error):
        source.fail("the archive is damaged or ends too early")
    except (NotImplementedError, RuntimeError):  # what zipfile says of zstd, and of a password
        source.fail("the archive is compressed or encrypted in a way that cannot be read here")


def _value(source: Source, archive: ZipFile, name: str) -> Any:
    with archive.open(name) as member:
        content = member.read(FILE_MAX_BYTES + 1)
    if len(content) > FILE_MAX_BYTES:
        source.fail("a file of the archive is too large to be read as one JSON value")
    return parse_json(source, content)


FORMAT: Final = Format("inspect-eval", sniff, read)
