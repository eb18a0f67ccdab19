"""What is worked out from rules once, kept on disk for the next start.

It is made of rules alone, never of a payload.  A cache that cannot be read or written only costs
time; what is read is told from what a disk made of it by its digest.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import platformdirs

_PACKAGE: Final = Path(__file__).parent
_DIGEST_BYTES: Final = 32

T = TypeVar("T")


def place(kind: str, about: bytes, suffix: str = "") -> Path:
    """Where something of this `kind` is kept that depends on nothing but `about`."""
    name = hashlib.sha256(about).hexdigest()
    return platformdirs.user_cache_path("redactory") / kind / f"{name}{suffix}"


@cache
def code_digest() -> bytes:
    """Over the sources of this package: what altered code would work out is another thing."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def write(path: Path, data: bytes) -> None:
    """Keeps `data` if it can; nobody sees it before it is whole."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)  # noqa: PTH105
    except OSError:
        return


def derived(kind: str, source: Any, type_: type[T], derive: Callable[[], T]) -> T:
    """What `derive` makes of `source` (both as JSON can tell), or made of it before."""
    path = place(kind, code_digest() + msgspec.json.encode(source))
    try:
        kept = path.read_bytes()
        if hashlib.sha256(kept[_DIGEST_BYTES:]).digest() == kept[:_DIGEST_BYTES]:
            return msgspec.json.decode(kept[_DIGEST_BYTES:], type=type_)
    except (OSError, msgspec.MsgspecError):
        pass
    made = derive()
    data = msgspec.json.encode(made)
    write(path, hashlib.sha256(data).digest() + data)
    return made
