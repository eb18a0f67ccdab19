"""Scopes: JSON pointers (RFC 6901) in which `*` stands for any one step."""

from collections.abc import Iterable


class Scopes:
    """A set of scopes; a scope covers what it points to and all below."""

    def __init__(self, pointers: Iterable[str]) -> None:
        self._scopes = [pointer.split("/")[1:] for pointer in pointers]

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def cover(self, path: str) -> bool:
        """Whether one of the scopes covers `path`."""
        steps = path.split("/")[1:]
        return any(
            len(scope) <= len(steps)
            and all(want in ("*", step) for want, step in zip(scope, steps, strict=False))
            for scope in self._scopes
        )
