"""The Unix filter: one value a line in, the masked value a line out, in bounded memory."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final

import orjson

from redactors.engine import Redactor
from redactors.errors import Unexaminable
from redactors.types import Redacted

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is not examined."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that could not be examined; nothing of it may be passed on."""

    line: int  # from 1
    code: str


def redact_lines(
    source: BinaryIO, redactor: Redactor, *, text: bool = False, declare: bool = False
) -> Iterator[bytes | Refused]:
    """Masks `source` line by line: each a JSON value, or with `text` a text.

    Yields each line's output with the line's own ending, or Refused in its place; with `declare`
    the output is `{"value": …, "redactions": […]}`.
    """
    number = 0
    while line := source.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            _skip_line(source, line)
            yield Refused(number, "too-large")
            continue
        body = line.rstrip(b"\r\n")
        try:
            redacted = _redact(body, redactor, text)
        except Unexaminable as error:
            yield Refused(number, error.code)
            continue
        output = _declared(redacted, text) if declare else redacted.text.encode()
        yield output + line[len(body) :]


def _skip_line(source: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = source.readline(MAX_LINE_BYTES)


def _redact(body: bytes, redactor: Redactor, text: bool) -> Redacted:
    try:
        decoded = body.decode()
    except UnicodeDecodeError:
        raise Unexaminable("not-utf-8") from None
    return redactor.redact_text(decoded) if text else redactor.redact_json(decoded)


def _declared(redacted: Redacted, text: bool) -> bytes:
    value = orjson.dumps(redacted.text) if text else redacted.text.strip().encode()
    redactions = orjson.dumps([asdict(redaction) for redaction in redacted.redactions])
    return b'{"value":' + value + b',"redactions":' + redactions + b"}"
