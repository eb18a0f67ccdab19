"""The journal: the raw arguments of open steps, beside the agent, sealed, for a day at most.

Records are masked.  A run that dies in the middle of a call has the call's arguments nowhere but
here: encrypted (ChaCha20-Poly1305, RFC 8439) under the key ring, bound to run and step, readable by
its owner only, gone when the step closes or the run ends.  There are as many files as steps that
were open at once; one whose step has closed is empty, and takes the next.  The task that a run was
started with is the first step to open and the last to close.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
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
        self._ciphers: dict[str, ChaCha20Poly1305] = {}
        self._open: dict[str, FileIO] = {}
        self._free: list[FileIO] = []

    def put(self, step: str, value: Any) -> None:
        """Keeps the raw arguments of a step that opens."""
        made_s = int(self._clock_s())
        key_id, nonce = self._keys.current, secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher(key_id).encrypt(
            nonce, json.dumps(value).encode(), self._bound(step, made_s)
        )
        header = json.dumps({"key": key_id, "made_s": made_s, "nonce": nonce.hex()}).encode()
        file = self._open[step] = self._file()
        # Whoever dies here has not begun the step: half an entry opens as none.
        file.write(header + b"\n" + sealed)

    def read(self, step: str) -> Any | None:
        """The raw arguments of an open step; None if they are not here, or not readable any more:
        older than a day, damaged, another run's, or sealed under a key that is gone."""
        found = self._find(step)
        return None if found is None else json.loads(found[1])

    def close(self, step: str) -> None:
        """Removes what a step left, now that its result is recorded."""
        file = self._open.pop(step, None)
        if file is not None:
            file.seek(0)
            file.truncate()
            self._free.append(file)
        elif (found := self._find(step)) is not None:
            found[0].unlink(missing_ok=True)

    def _file(self) -> FileIO:
        """An empty file; none that a purge has removed meanwhile."""
        with suppress(IndexError):  # threads share the journal
            while not os.fstat((file := self._free.pop()).fileno()).st_nlink:
                file.close()
            return file
        path = self._folder / secrets.token_hex(8)
        return FileIO(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600))

    def _find(self, step: str) -> tuple[Path, bytes] | None:
        """The file that holds a step, and what it holds: the newest, if an attempt that died left
        one of the same name."""
        files = sorted(self._folder.glob("*"), key=lambda path: path.stat().st_mtime_ns)
        for path in reversed(files):
            opened = self._opened(path, step)
            if opened is not None:
                return path, opened
        return None

    def _opened(self, path: Path, step: str) -> bytes | None:
        try:
            header, _, sealed = path.read_bytes().partition(b"\n")
            told = json.loads(header)
            key_id, made_s, nonce = told["key"], int(told["made_s"]), bytes.fromhex(told["nonce"])
            if not 0 <= self._clock_s() - made_s <= MAX_AGE_S or key_id not in self._keys.keys:
                return None
            return self._cipher(key_id).decrypt(nonce, sealed, self._bound(step, made_s))
        except (FileNotFoundError, InvalidTag, ValueError, KeyError, TypeError):
            return None

    def end(self) -> None:
        """Removes everything that the run left."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _cipher(self, key_id: str) -> ChaCha20Poly1305:
        if key_id not in self._ciphers:
            self._ciphers[key_id] = ChaCha20Poly1305(self._keys.digest(key_id, "journal"))
        return self._ciphers[key_id]

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
