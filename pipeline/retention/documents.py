"""The documents of the audit trail: canonical JSON, read strictly."""

from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline.errors import LogError

FORMAT = 1
"""Version of the documents; it rises when an older reader would misunderstand a newer one."""

_Document = TypeVar("_Document")


def decode(kind: type[_Document], document: bytes) -> _Document:
    """The document of a kind (a frozen dataclass with `format`); `LogError` if it is none."""
    adapter: TypeAdapter[_Document] = _adapter(kind)  # type: ignore[arg-type]  # a type has a hash
    try:
        found = adapter.validate_json(document, strict=True)
    except ValidationError:
        raise LogError(
            "a document of the audit trail cannot be read",
            code="bad-audit",
            hint="the file was changed or cut short after it was written: restore it",
        ) from None
    if getattr(found, "format", FORMAT) > FORMAT:
        raise LogError(
            "a document of the audit trail was written by a newer version",
            code="newer-format",
            hint="upgrade",
        )
    return found


@lru_cache(maxsize=32)
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
