"""Who works in a folder? One process at a time, for as long as it lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import FolderError, RegardError


@contextmanager
def lock(folder: str | Path) -> Iterator[None]:
    """Hold ``folder`` alone, for the length of a ``with`` block or until the process dies.

    Where the system has no ``flock`` (Windows) the file ``lock`` marks the folder, and after a crash must be deleted by
    hand; the message says so.

    Raises:
        FolderError: somebody else holds it.
        RegardError: the system refused.
    """
    path = Path(folder) / "lock"
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | (0 if fcntl else os.O_EXCL), 0o644)
    except FileExistsError:
        raise FolderError(f"{folder} is in use; if nothing runs there any more, delete {path}") from None
    except OSError as error:
        raise RegardError(f"cannot lock {path}: {error.strerror or error}") from error
    try:
        if fcntl:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderError(f"{folder} is in use by another process; wait for it or choose another") from None
            except OSError as error:
                raise RegardError(f"cannot lock {path}: {error.strerror or error}") from error
        yield
    finally:
        os.close(handle)
        if not fcntl:
            path.unlink(missing_ok=True)
