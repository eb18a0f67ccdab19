"""The vectors of `schemas/vectors`: Python passes them, and they are what its command writes."""

import base64
import hashlib
import hmac
import json
from dataclasses import asdict
from importlib.resources import files as package_files
from typing import Any

import conformance
import pytest
from conformance import KEYS, joined

from redactors import Redactor, load_ruleset


def vectors(name: str) -> list[dict[str, Any]]:
    text = package_files("schemas").joinpath("vectors", name).read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def emitters() -> dict[str | None, Redactor]:
    """Emitters by the id of their key; one has none."""
    ruleset = load_ruleset()
    return {keys and keys.current: Redactor(ruleset, keys, by="emitter") for keys in (KEYS, None)}


def test_bodies_are_masked_and_declared_as_written(emitters: dict[str | None, Redactor]) -> None:
    every = vectors("redaction.json")
    assert len(every) >= 50
    for vector in every:
        done = emitters[vector["key"]].redact_json(joined(vector["body"]))
        assert done.text == joined(vector["masked"]), vector["name"]
        declared = json.loads(json.dumps([asdict(redaction) for redaction in done.redactions]))
        assert declared == vector["redactions"], vector["name"]


def test_what_is_masked_is_left_alone(emitters: dict[str | None, Redactor]) -> None:
    for vector in vectors("redaction.json"):
        masked = joined(vector["masked"])
        assert emitters[vector["key"]].redact_json(masked).text == masked, vector["name"]


def test_the_keyed_hash_is_what_the_readme_says(emitters: dict[str | None, Redactor]) -> None:
    for vector in vectors("hashes.json"):
        label, value = vector["label"], vector["value"]
        name = _base32(_digest("pseudonym", label.encode(), value.encode()), 12)
        checksum = _base32(_digest("mask-checksum", label.encode(), name.encode()), 4)
        assert vector["mask"] == f"[{label}:k1:{name}{checksum}]"
        assert emitters["k1"].pseudonym(value, label) == vector["mask"]


def _digest(*parts: bytes | str) -> bytes:
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in raw)
    return hmac.digest(bytes(range(32)), framed, hashlib.sha256)


def _base32(digest: bytes, length: int) -> str:
    return base64.b32encode(digest).decode()[:length]


def test_partitions_are_chosen_as_written() -> None:
    for vector in vectors("partitions.json"):
        chosen = conformance.partition_of(vector["run_id"], vector["partitions"])
        assert chosen == vector["partition"]


def test_the_files_are_what_the_command_writes() -> None:
    written = {name: vectors(name) for name in conformance.files()}
    assert written == json.loads(json.dumps(conformance.files())), "run `make vectors`"


def test_no_piece_of_a_text_is_one_that_a_rule_masks(emitters: dict[str | None, Redactor]) -> None:
    for vector in vectors("redaction.json"):
        for text in (vector["body"], vector["masked"]):
            if isinstance(text, str):
                assert not emitters["k1"].redact_json(text).redactions, vector["name"]
