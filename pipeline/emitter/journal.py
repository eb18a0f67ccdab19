"""The journal: the raw arguments of open steps, beside the agent, sealed, for a day at most.

Records are masked.  A run that dies in the middle of a call has the call's arguments nowhere but
here: one file for each open step, encrypted (ChaCha20-Poly1305, RFC 8439) under the key ring, bound
to run and step, readable by its owner only, removed when the step closes or the run ends.  The task
that a run was started with is the first step to open and the last to close.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import platformdirs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from redactors import KeyRing

MAX_AGE_S: Final = 24 * 3600
TASK: Final = "task"

_NONCE_BYTES: Final = 12


def default_journals() -> Path:
    """A folder for the journals of this user's agents."""
    return platformdirs.user_state_path("redactory") / "journal"


class Journal:
    """The journal of one run, in a folder of its own under `root`; `clock_s` gives epoch seconds.

    Opening one removes whatever under `root` is older than a day.
    """

    def __init__(
        self, root: Path, keys: KeyRing, run_id: str, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._run_id, self._keys, self._clock_s = run_id, keys, clock_s
        self._folder = root / hashlib.sha256(run_id.encode()).hexdigest()[:32]
        purge(root, clock_s())
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, step: str, value: Any) -> None:
        """Keeps the raw arguments of a step that opens."""
        made_s = int(self._clock_s())
        key_id, nonce = self._keys.current, secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher(key_id).encrypt(
            nonce, json.dumps(value).encode(), self._bound(step, made_s)
        )
        header = json.dumps({"key": key_id, "made_s": made_s, "nonce": nonce.hex()}).encode()
        # Whoever dies here has not begun the step: half an entry opens as none.
        descriptor = os.open(
            self._folder / _file(step), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(header + b"\n" + sealed)

    def read(self, step: str) -> Any | None:
        """The raw arguments of an open step; None if they are not here, or not readable any more:
        older than a day, damaged, another run's, or sealed under a key that is gone."""
        try:
            header, _, sealed = (self._folder / _file(step)).read_bytes().partition(b"\n")
            told = json.loads(header)
            key_id, made_s, nonce = told["key"], int(told["made_s"]), bytes.fromhex(told["nonce"])
            if not 0 <= self._clock_s() - made_s <= MAX_AGE_S or key_id not in self._keys.keys:
                return None
            opened = self._cipher(key_id).decrypt(nonce, sealed, self._bound(step, made_s))
        except (FileNotFoundError, InvalidTag, ValueError, KeyError, TypeError):
            return None
        return json.loads(opened)

    def close(self, step: str) -> None:
        """Removes what a step left, now that its result is recorded."""
        (self._folder / _file(step)).unlink(missing_ok=True)

    def end(self) -> None:
        """Removes everything that the run left."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _cipher(self, key_id: str) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self._keys.digest(key_id, "journal"))

    def _bound(self, step: str, made_s: int) -> bytes:
        return json.dumps([self._run_id, step, made_s]).encode()


def purge(root: Path, now_s: float) -> None:
    """Removes every entry under `root` that is older than a day, whoever's run it was."""
    for path in root.glob("*/*"):
        try:
            if now_s - path.stat().st_mtime > MAX_AGE_S:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue  # its run closed it meanwhile
    for folder in root.glob("*"):
        if not any(folder.iterdir()) and now_s - folder.stat().st_mtime > MAX_AGE_S:
            shutil.rmtree(folder, ignore_errors=True)


def _file(step: str) -> str:
    return hashlib.sha256(step.encode()).hexdigest()[:32]
