"""Makes `schemas/vectors`: what an emitter in any language must do, as data (`make vectors`).

No text that a rule would mask stands in the files as one piece: it is a list of pieces to join.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from redactors import KeyRing, Redactor, Ruleset, load_ruleset
from redactors.templates import expand

FOLDER = Path(__file__).parents[1] / "schemas" / "vectors"

KEYS = KeyRing("k1", {"k1": bytes(range(32))})
"""The ring of all vectors: its one key is the bytes 0 to 31."""

PIECE = 4
"""Characters of a piece: too few for any rule."""

RULES = (
    *("github-token", "aws-access-key-id", "openai-key", "anthropic-key", "slack-token"),
    *("google-api-key", "stripe-key", "jwt", "private-key-pem", "url-userinfo"),
    *("email", "iban", "us-ssn", "ipv4"),
)
"""Rules of which the first example is a vector."""

BODIES = {
    "nothing to mask": '{ "a": [1, {"b": "plain words"}],\n "c":  null }',
    "numbers as they are": '{"n": 1.10, "big": 123456789012345678901, "t": "{{github:ghp_}}"}',
    "a field by its name": '{"user": "u", "password": "{{lower:9}} {{lower:5}}"}',
    "a field spelled otherwise": '{"X-Api-Key": "{{base62:24}}"}',
    "a list of headers": '{"headers": [{"name": "Authorization", "value": "{{base62:24}}"}]}',
    "JSON within a text": '{"sent": "{\\"password\\": \\"{{lower:9}} {{lower:5}}\\"}"}',
    "behind an escape": '{"t": "one\\nAKIA{{base32:16}}\\ttwo"}',
    "within base64": '{"t": "{{base64of:login ok, password: b1ue-0tter-7731}}"}',
    "percent-encoded": '{"t": "a%20%22{{github:ghp_}}%22"}',
    "in code points": '{"t": "\\u2764 😀 {{github:ghp_}} 😀"}',
    "the key of an object": '{"{{github:ghp_}}": 1}',
    "two in one text": '{"t": "{{github:ghp_}} and {{github:ghs_}}"}',
    "a mask that is one": '{"t": "[SECRET] [EMAIL] [PASSWORD]"}',
    "text that looks like a mask": '{"t": "[{{github:ghp_}}] [SECRET:k1:AAAAAAAAAAAAAAAA]"}',
    "a card": '{"t": "paid with {{luhn:16:4}}"}',
    "equal values are equal": '{"a": "jo@corp-mail.com", "b": "jo@corp-mail.com"}',
}

VALUES = ("", "jane", "Jane", "jané", "a longer value with spaces")
RUNS = ("", "a", "run-1", "run-2", "0198d7c2-5b1e-7c3a-9f00-000000000001", "läuft", "x" * 64)
PARTITIONS = (1, 3, 4, 12)


def files() -> dict[str, Any]:
    """The content of each file, by its name."""
    ruleset = load_ruleset()
    emitters = {keys is not None: Redactor(ruleset, keys, by="emitter") for keys in (KEYS, None)}
    return {
        "redaction.json": [
            _redacted(name, body, emitters[is_keyed], emitters[True])
            for name, body in _bodies(ruleset)
            for is_keyed in (True, False)
        ],
        "hashes.json": [
            {"label": label, "value": value, "mask": emitters[True].pseudonym(value, label)}
            for label in ("EMAIL", "SUBJECT")
            for value in VALUES
        ],
        "partitions.json": [
            {"run_id": run, "partitions": count, "partition": partition_of(run, count)}
            for run in RUNS
            for count in PARTITIONS
        ],
    }


def partition_of(run_id: str, partitions: int) -> int:
    """The partition of a run, as Kafka's own clients choose it for a key (`murmur2_random`)."""
    return (murmur2(run_id.encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 of a key, as its Java client computes it."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(key)
    whole = len(key) - len(key) % 4
    for at in range(0, whole, 4):
        block = int.from_bytes(key[at : at + 4], "little") * mix & mask
        block = (block ^ block >> 24) * mix & mask
        value = (value * mix & mask) ^ block
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * mix & mask
    value = (value ^ value >> 13) * mix & mask
    return value ^ value >> 15


def joined(text: str | list[str]) -> str:
    """A text of a vector: as it stands, or its pieces joined."""
    return text if isinstance(text, str) else "".join(text)


def _bodies(ruleset: Ruleset) -> Iterator[tuple[str, str]]:
    examples = {rule.id: rule.matches[0] for rule in ruleset.rules if rule.matches}
    for rule in RULES:
        yield f"rule {rule}", json.dumps({"text": expand(examples[rule])}, ensure_ascii=False)
    for name, template in BODIES.items():
        yield name, expand(template)


def _redacted(name: str, body: str, emitter: Redactor, strict: Redactor) -> dict[str, Any]:
    done = emitter.redact_json(body)
    return {
        "name": name,
        "key": emitter.key_id or None,
        "body": _pieces(body, strict),
        "masked": _pieces(done.text, strict),
        "redactions": [asdict(redaction) for redaction in done.redactions],
    }


def _pieces(text: str, strict: Redactor) -> str | list[str]:
    is_clean = not strict.redact_json(text).redactions
    return text if is_clean else [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def write(folder: Path = FOLDER) -> Iterable[Path]:
    """Writes the files; gives their paths."""
    for name, content in files().items():
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in content)
        (folder / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        yield folder / name


if __name__ == "__main__":
    list(write())
