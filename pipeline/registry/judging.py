"""May a schema be registered?  Only if the registry lets it, and if its events can be read here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType

from pipeline.errors import RegistryError, UsageError
from pipeline.registry.client import AVRO, JSON, Registered, Registry
from schemas import avro
from schemas.bounds import is_bounded
from schemas.compat import unreadable

KINDS: Final = {".avsc": AVRO, ".json": JSON}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schema to be judged; `kind` is AVRO or JSON."""

    text: str
    kind: str

    @classmethod
    def of(cls, path: Path | None) -> "Candidate":
        """The schema in a file, told by its suffix; None: the one that this version emits."""
        if path is None:
            return cls(json.dumps(avro.current()), AVRO)
        hint = "name an .avsc (Avro) or a .json (JSON Schema)"
        if path.suffix not in KINDS:
            raise UsageError(f"{path} has another suffix", code="schema-file", hint=hint)
        try:
            return cls(path.read_text(encoding="utf-8"), KINDS[path.suffix])
        except (OSError, UnicodeDecodeError) as error:
            why = f"{path} cannot be read ({type(error).__name__})"
            raise UsageError(why, code="schema-file", hint=hint) from None


def problems(registry: Registry, subject: str, candidate: Candidate) -> list[str]:
    """Why a schema may not be the next version of a subject; empty: it may.  Registers nothing."""
    found = list(unfit(candidate.text, candidate.kind))
    if found:
        return found
    if registry.is_compatible(subject, candidate.text, candidate.kind):
        return []
    return [f"the registry's rule for {subject} does not allow it after the versions there"]


def unfit(text: str, kind: str) -> Sequence[str]:
    """Why run events written with a schema would become dead letters; empty: they would not.

    A JSON Schema is not judged further: events are checked one by one.
    """
    try:
        schema: Any = json.loads(text)
        if kind == AVRO:
            return _unfit_avro(schema)
    except (SchemaParseException, UnknownType, LookupError, TypeError, ValueError, RecursionError):
        return ["it is no schema"]
    return [] if kind == JSON else [f"{kind} is not read: only Avro and JSON Schema are"]


def _unfit_avro(schema: Any) -> Sequence[str]:
    parsed = avro.readable(schema)
    if found := unreadable(schema, avro.current()):
        return found
    if not is_bounded(parsed):
        return ["a type holds itself, or is repeated and takes no byte: no bound holds its data"]
    return []


def emitted_as(registry: Registry, topic: str) -> int:
    """The id under which the registry knows the schema that events are emitted with.

    Raises RegistryError if it is no version of the topic's subject.
    """
    ours, subject = avro.fingerprint(avro.current()), subject_of(topic)
    for number in reversed(registry.versions(subject)):
        version = registry.version(subject, number)
        if version is not None and _fingerprint(version) == ours:
            return version.schema_id
    raise RegistryError(
        f"no version of {subject} is the schema of a run event as it is emitted here",
        code="schema-missing",
        hint=f"redactory schemas register --subject {subject}",
    )


def subject_of(topic: str) -> str:
    """The subject of a topic's values, as Confluent's clients name it."""
    return f"{topic}-value"


def _fingerprint(version: Registered) -> bytes | None:
    if version.kind != AVRO or unfit(version.text, version.kind):
        return None
    return avro.fingerprint(json.loads(version.text))
