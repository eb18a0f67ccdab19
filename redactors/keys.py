"""The key ring: keys with ids, kept in a file that only its owner may read.

Keys never come from a ruleset and never lie under a lake.  A rotated ring keeps its old keys, so
that masks written under them are still recognised; new masks are written under `current`.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import platformdirs

from redactors.errors import KeyRingError

ENVIRONMENT: Final = "REDACTORY_KEYS"
"""Names the file to use instead of the one in the user's configuration directory."""

_KEY_ID: Final = re.compile(r"[a-z0-9]{1,16}")
_KEY_SIZE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id, each of 32 bytes; `current` is the one that new masks are written under."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise KeyRingError(f"key ring has no key {self.current!r}, which it calls current")
        for key_id, key in self.keys.items():
            if not _KEY_ID.fullmatch(key_id):
                raise KeyRingError("a key id is 1 to 16 small letters and digits")
            if len(key) < _KEY_SIZE_BYTES:
                raise KeyRingError(f"key {key_id} is shorter than {_KEY_SIZE_BYTES} bytes")

    @classmethod
    def generate(cls) -> "KeyRing":
        """A ring with one fresh random key."""
        key_id = _fresh_id()
        return cls(key_id, {key_id: secrets.token_bytes(_KEY_SIZE_BYTES)})

    @classmethod
    def load(cls, path: Path) -> "KeyRing":
        """Reads a ring; raises KeyRingError if the file is missing, malformed or open to others."""
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise KeyRingError(f"key file {path} does not exist") from None
        except (OSError, UnicodeDecodeError) as error:
            raise KeyRingError(f"key file {path} cannot be read: {type(error).__name__}") from None
        if os.name == "posix" and mode & 0o077:
            raise KeyRingError(f"key file {path} is open to others: run chmod 600 on it")
        try:
            document: Any = json.loads(text)
            keys = {str(k): bytes.fromhex(v) for k, v in document["keys"].items()}
            return cls(str(document["current"]), keys)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise KeyRingError(f"key file {path} is not a key ring") from None

    @classmethod
    def from_env(cls) -> "KeyRing":
        """The ring in the file that REDACTORY_KEYS names."""
        path = os.environ.get(ENVIRONMENT)
        if not path:
            raise KeyRingError(f"{ENVIRONMENT} is not set")
        return cls.load(Path(path))

    def save(self, path: Path) -> None:
        """Writes a new file (0600); raises KeyRingError if one is there already."""
        document = {"current": self.current, "keys": {k: v.hex() for k, v in self.keys.items()}}
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Linked under its name only when it is whole: another process may be waiting to read it.
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            os.link(unfinished, path)
        except FileExistsError:
            raise KeyRingError(f"key file {path} exists already") from None
        finally:
            unfinished.unlink()

    def with_current(self, key_id: str) -> "KeyRing":
        """The same keys, writing under `key_id`."""
        return KeyRing(key_id, self.keys)

    def rotated(self) -> "KeyRing":
        """The ring with a fresh current key; the old ones stay for recognition."""
        key_id = _fresh_id()
        while key_id in self.keys:
            key_id = _fresh_id()
        return KeyRing(key_id, {**self.keys, key_id: secrets.token_bytes(_KEY_SIZE_BYTES)})

    def digest(self, key_id: str, purpose: str, *parts: bytes) -> bytes:
        """HMAC-SHA-256 (RFC 2104) of `parts`, each length-prefixed, apart for each `purpose`."""
        every = (purpose.encode(), *parts)
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in every)
        return hmac.digest(self.keys[key_id], framed, hashlib.sha256)


def default_key_file() -> Path:
    """The file that REDACTORY_KEYS names, else one in the user's configuration directory."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else platformdirs.user_config_path("redactory") / "keys.json"


def load_or_create_keys(path: Path | None = None) -> tuple[KeyRing, bool]:
    """The ring in `path` (None: the default file), made if there is none; True if it was made."""
    file = path or default_key_file()
    if file.exists():
        return KeyRing.load(file), False
    ring = KeyRing.generate()
    try:
        ring.save(file)
    except KeyRingError:  # another process made it first: use that one
        return KeyRing.load(file), False
    except OSError as error:
        raise KeyRingError(f"cannot write key file {file}: {error.strerror}") from None
    return ring, True


def _fresh_id() -> str:
    return "k" + secrets.token_hex(3)
