"""Base64 in text: read, masked inside, written again in place; what is no text becomes opaque."""

import base64
import binascii
import bz2
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import re2

MIN_RUN: Final = 20
"""Characters of base64 that are looked into."""

_BODY: Final = r"(?P<run>[A-Za-z0-9+/_-]{20,}+(?:\r?\n[A-Za-z0-9+/_-]{20,}+)*+={0,2})"
_RUN: Final = re.compile(rf"(?<![A-Za-z0-9+/_-]){_BODY}")
_HEAD: Final = r"data:(?P<media>[\w.+-]{1,64}/[\w.+-]{1,64})(?:;[\w.+=-]{1,64}){0,4};base64,"
_MAY_BE_URL: Final = re.compile(f"(?:{_HEAD})?{_BODY}")
_DATA_URL: Final = re.compile(_HEAD + _BODY)
# Five groups of base64 that decode to printable ASCII (a character of each pair has three bits
# known), at any alignment; compressed data and files are told by how they begin.
_PRINTABLE: Final = (
    r"[I-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589+/_\x2d][A-Za-z0-9+/_\x2d]"
)
CODE_PATTERNS: Final = (
    f"(?:{_PRINTABLE}){{5}}",
    "(?:H4sI|QlpoO|/Td6WFo|_Td6WFo|UEsDB|iVBORw0KGgo|R0lGOD[lh]|JVBERi0|N3q8ry|UmFyIR)",
    "(?:KLUv[/_]|BCJNGA|[/_]wYAAHNOYVBwWQ|TFpJUA)",
    r"(?:eJ[wxyz0-9]|eNo|eAE|eAF|/9j/|_9j_|UklGR|AAAA[A-Za-z0-9+/]{3}mdHlw)[A-Za-z0-9+/_\x2d]{24}",
)
DATA_URL_PATTERN: Final = (
    r"data:[\w.+\x2d]{1,64}/[\w.+\x2d]{1,64}(?:;[\w.+=\x2d]{1,64}){0,4};base64,"
)
_TELLING: Final = re2.compile("|".join(CODE_PATTERNS))
# How images, sound, films, fonts, documents, archives and programs begin.
_FILES: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF-", b"PK\x03\x04", b"RIFF", b"7z\xbc\xaf",
    b"Rar!", b"II*\x00", b"MM\x00*", b"\x00\x00\x01\x00", b"ID3", b"OggS", b"fLaC",
    b"\x1aE\xdf\xa3", b"wOFF", b"wOF2", b"\x7fELF", b"SQLite format 3",
)  # fmt: skip
_FILM: Final = b"ftyp"  # behind four bytes of length
# How compressed data begins that is not inflated here: zstd, LZ4, snappy, lzip.
_SEALED: Final = (b"(\xb5/\xfd", b"\x04\x22M\x18", b"\xff\x06\x00\x00sNaPpY", b"LZIP")
_COMPRESSED: Final = (b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00", b"x\x01", b"x\x9c", b"x\xda")
_STRING: Final = re.compile(rb"[\x20-\x7e]{17,}+")  # shorter than any key told by its shape
_PLAIN: Final = str.maketrans("-_", "+/", "\r\n=")
_MAX_LAYERS: Final = 4
_MAX_INFLATED_BYTES: Final = 16 * 1024 * 1024
_MIN_FILE_BYTES: Final = 48
_MIN_TELLING_BYTES: Final = 32
_PIECE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Run:
    """A run of base64 at the code points `[start, end)` of a text, and the bytes it holds.

    `lead` characters of it, and what follows the last whole group, are not part of the code.
    `media` is the media type of the data URL it stands in, "" outside one.
    """

    start: int
    end: int
    text: str
    lead: int
    data: bytes
    media: str


def runs(text: str) -> Iterator[Run]:
    """The runs of base64 in `text` that may hold something, at the alignment that reads best.

    Those are the ones that stand in a data URL, and those that look like code of text or begin as
    files and compressed data do.
    """
    if "base64," not in text:
        for match in _RUN.finditer(text):
            if _TELLING.search(match[0]):
                yield _best(match[0], *match.span(), "")
        return
    for match in _MAY_BE_URL.finditer(text):
        run, media = match["run"], match["media"] or ""
        if media or _TELLING.search(run):
            yield _best(run, *match.span("run"), media)


def data_urls_hold_nothing(text: str) -> bool:
    """Whether no data URL in `text` holds a file, something compressed, or any text."""
    for match in _DATA_URL.finditer(text):
        data = decoded(match["run"])
        if is_file(data) or is_compressed(data) or is_sealed(data):
            return False
        if readable(data) is not None or _TELLING.search(match["run"]):
            return False
    return True


def _best(run: str, start: int, end: int, media: str) -> Run:
    candidates = [Run(start, end, run, lead, decoded(run[lead:]), media) for lead in range(4)]
    whole = candidates[0]
    if media or is_file(whole.data) or is_compressed(whole.data) or is_sealed(whole.data):
        return whole
    return max(candidates, key=lambda c: (readable(c.data) is not None, -c.lead))


def decoded(run: str) -> bytes:
    """The bytes of a run in either alphabet, with or without padding and line breaks."""
    plain = run.translate(_PLAIN)
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return b""


def encoded(run: Run, data: bytes) -> str:
    """`run` with `data` in it: the same alphabet, padding and line length."""
    url_safe = "-" in run.text or "_" in run.text
    code = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()
    if not run.text.endswith("="):
        code = code.rstrip("=")
    lines = run.text.splitlines()
    if len(lines) > 1:
        width, newline = len(lines[0]), "\r\n" if "\r\n" in run.text else "\n"
        code = newline.join(code[at : at + width] for at in range(0, len(code), width))
    return run.text[: run.lead] + code


def readable(data: bytes) -> str | None:
    """`data` as text, if it is text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\n\r" for c in text) else None


def is_file(data: bytes) -> bool:
    """Whether `data` is an image, an archive or a document, by its first bytes."""
    begins = data.startswith(_FILES) or data[4:8] == _FILM
    return len(data) >= _MIN_FILE_BYTES and begins


def is_compressed(data: bytes) -> bool:
    """Whether `data` begins as gzip, zlib, bzip2 or xz do."""
    return data.startswith(_COMPRESSED)


def is_sealed(data: bytes) -> bool:
    """Whether `data` is compressed in a way that is not undone here."""
    return data.startswith(_SEALED)


def strings(run: Run) -> str:
    """The stretches of text in the bytes that a run holds, at whatever alignment it is read."""
    read = (decoded(run.text[lead:]) for lead in range(4))
    return "\n".join(found.decode() for data in read for found in _STRING.findall(data))


def inflated(data: bytes) -> str | None:
    """What compressed `data` holds, "" if it only begins as such data does.

    None: it cannot be told in full, for its length or because it is damaged or cut off.
    """
    for _ in range(_MAX_LAYERS):
        if not data.startswith(_COMPRESSED):
            return None if is_sealed(data) else data.decode("utf-8", "replace")
        inner = _inflated(data)
        if inner is None:
            return None
        data = inner
    return None


def _inflated(data: bytes) -> bytes | None:
    """What the compressed streams that stand one after the other in `data` hold."""
    whole = bytearray()
    while data.startswith(_COMPRESSED):
        stream = _stream(data)
        try:
            for at in range(0, len(data), _PIECE_BYTES):
                piece = data[at : at + _PIECE_BYTES]
                whole += stream.decompress(piece, _MAX_INFLATED_BYTES - len(whole))
                if len(whole) >= _MAX_INFLATED_BYTES:
                    return None
                if stream.eof:
                    data = stream.unused_data + data[at + _PIECE_BYTES :]
                    break
            else:
                raise EOFError
        except (OSError, EOFError, lzma.LZMAError, zlib.error):
            # Two bytes are a weak sign: what soon is no such stream never was one.
            is_none = data.startswith(b"x") and len(whole) < _MIN_TELLING_BYTES
            return b"" if is_none else None
    return None if data.strip(b"\0") else bytes(whole)


def _stream(data: bytes) -> Any:
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor() if data.startswith(b"\xfd") else zlib.decompressobj(wbits=47)
