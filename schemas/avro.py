"""The wire schema and its history: loaded, fingerprinted, ready for fastavro."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fastavro.schema import fingerprint as digest_of
from fastavro.schema import parse_schema, to_parsing_canonical_form

Schema = Mapping[str, Any] | list[Any] | str

FULL_NAME: Final = "redactory.v1.RunEvent"

_ESSENTIAL: Final = (
    *("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "logicalType"),
)


@cache
def current() -> dict[str, Any]:
    """The schema new events are written with, as it stands in `run_event.avsc`."""
    schema: dict[str, Any] = json.loads(files("schemas").joinpath("run_event.avsc").read_bytes())
    return schema


@cache
def history() -> tuple[dict[str, Any], ...]:
    """Every schema ever published, oldest first; the last equals `current()`."""
    folder = files("schemas").joinpath("history")
    versions = {
        int(entry.name.split(".")[1]): entry
        for entry in folder.iterdir()
        if entry.name.endswith(".avsc")
    }
    return tuple(json.loads(versions[number].read_bytes()) for number in sorted(versions))


def fingerprint(schema: Schema) -> bytes:
    """CRC-64-AVRO of the parsing canonical form: 8 bytes, little-endian as on the wire.

    Source: Avro specification, "Schema Fingerprints" and "Single-object encoding".
    """
    canonical = to_parsing_canonical_form(_without_logical_types(schema))
    return bytes.fromhex(digest_of(canonical, "CRC-64-AVRO"))


def readable(schema: Schema) -> Any:
    """Parsed for fastavro, times left as integers: `datetime` is slow and ends at year 9999."""
    return parse_schema(_without_logical_types(schema))


def essential(schema: Any) -> Any:
    """What reading needs of a schema: names and types, without documentation, defaults and all
    else that somebody may have written there."""
    if isinstance(schema, Mapping):
        return {key: essential(schema[key]) for key in _ESSENTIAL if key in schema}
    if isinstance(schema, list):
        return [essential(each) for each in schema]
    return schema


@cache
def by_fingerprint() -> dict[bytes, Any]:
    """Every published schema, ready to read with, by its fingerprint."""
    return {fingerprint(schema): readable(schema) for schema in history()}


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: _without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    return schema
