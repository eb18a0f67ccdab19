"""Secrets and personal data to look for afterwards, and the search that finds each in any dress."""

import base64
import io
import json
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import hyperscan
import pyarrow.parquet as pq

from redactors import Redactor, load_ruleset
from redactors.templates import expand

MIN_LENGTH = 8
PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Canary:
    """`secret` must never be seen again; `body` is a JSON value that holds it."""

    secret: str
    body: object


FIELDS: tuple[Callable[[str], object], ...] = (
    lambda secret: {"password": secret},
    lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
    lambda secret: {"out": f"export API_KEY={secret}\nnext line"},
    lambda secret: {"args": json.dumps({"client_secret": secret})},
    lambda secret: {"url": f"postgres://app:{secret}@db.internal/orders"},
    lambda secret: {"headers": [{"name": "Cookie", "value": f"session={secret}; theme=dark"}]},
    lambda secret: {"deep": [{"list": [{"apiKey": secret, "n": 1}]}]},
    lambda secret: {"mail": f"write to {secret}@example.com, please"},
)


def canaries(count: int) -> list[Canary]:
    """`count` canaries: up to half of the rules' own examples, the rest in fields of all kinds."""
    found = list(_of_rules())[: count // 2]
    rng = random.Random(count)
    while len(found) < count:
        secret = "".join(rng.choices(string.ascii_lowercase + string.digits, k=24))
        found.append(Canary(secret, FIELDS[len(found) % len(FIELDS)](secret)))
    return found


def _of_rules() -> Iterator[Canary]:
    """What fills the holes of the rules' own examples, as far as masking removes it from text."""
    ruleset = load_ruleset()
    redactor = Redactor(ruleset, None)
    seen = set()
    for rule in ruleset.rules:
        for template in rule.matches:
            text = expand(template)
            body = {"content": text}
            left = redactor.redact_json(json.dumps(body)).text
            for secret in _fillings(template, text):
                if len(secret) >= MIN_LENGTH and secret not in left and secret not in seen:
                    seen.add(secret)
                    yield Canary(secret, body)
                    break


def _fillings(template: str, text: str) -> tuple[str, ...]:
    literals = re.split(r"\{\{[^{}]*\}\}", template)
    found = re.fullmatch("(.+?)".join(map(re.escape, literals)), text, re.DOTALL)
    return found.groups() if found else ()


class Search:
    """Finds canaries in bytes: raw, JSON-escaped, in base64, hex or percent encoding."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._dresses = [
            (secret, dress) for secret in secrets for dress in sorted(set(_dresses(secret)))
        ]
        self._database = hyperscan.Database()
        self._database.compile(
            expressions=[re.escape(dress) for _, dress in self._dresses],
            ids=list(range(len(self._dresses))),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self._dresses),
        )

    def in_bytes(self, data: bytes) -> set[str]:
        found: set[str] = set()

        def hit(number: int, *_: object) -> None:
            found.add(self._dresses[number][0])

        self._database.scan(data, match_event_handler=hit)
        return found

    def in_folders(self, *folders: Path) -> dict[str, Path]:
        """Each canary found with a file that holds it, in its name too; Parquet is also read row by
        row."""
        files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
        return {
            secret: file
            for file in files
            for data in _contents(file)
            for secret in self.in_bytes(data)
        }


def _contents(file: Path) -> Iterator[bytes]:
    data = file.read_bytes()
    yield str(file).encode()
    yield data
    if data.startswith(PARQUET_MAGIC) and data.endswith(PARQUET_MAGIC):
        rows = pq.read_table(io.BytesIO(data), partitioning=None).to_pylist()
        yield "\n".join(map(str, rows)).encode()


def _dresses(secret: str) -> Iterator[bytes]:
    raw = secret.encode()
    yield raw
    yield json.dumps(secret)[1:-1].encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield quote(secret, safe="").encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    for before in range(3):  # base64 looks different at each of three alignments
        encoded = base64.b64encode(b"\0" * before + raw)
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].replace(b"+", b"-").replace(b"/", b"_")
