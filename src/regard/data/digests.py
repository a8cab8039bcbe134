"""The SHA-256 of large files, remembered: a file of the same path, size and time of change is not read again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

_SETTLED = 2.0  # seconds; a file changed so lately may change again within the grain of the clock that dates it


class Digests:
    """Digests of files, kept in a file of their own, which may be deleted.

    Args:
        path: where.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):  # whatever a damaged one may hold
            known = json.loads(path.read_text(encoding="utf-8"))
            self._known = {key: bytes.fromhex(value).hex() for key, value in known.items()}

    def of(self, path: Path) -> bytes:
        """Return the digest of the content of ``path``.

        Raises:
            OSError: it cannot be read.
        """
        facts = path.stat()
        key = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino}"
        digest = self._known.get(key)
        if digest is None:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time() - facts.st_mtime > _SETTLED:
            self._seen[key] = digest
        return bytes.fromhex(digest)

    def keep(self) -> None:
        """Write down the digests of the files that were asked for; where that is not possible, they are made again."""
        if self._seen == self._known:
            return
        building = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            building.write_text(json.dumps(self._seen, indent=1), encoding="utf-8")
            building.replace(self._path)
