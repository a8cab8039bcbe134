"""When does a pipe pause? A filter keeps lines back to translate them together, but never while nobody writes more."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 0.05  # seconds; a person does not notice them, and a program that writes lines is faster


class _PausingInput(io.RawIOBase):
    """A file that calls ``paused`` before it waits for more."""

    def __init__(self, handle: int, paused: Callable[[], None]) -> None:
        self._handle, self._paused = handle, paused

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not select.select([self._handle], [], [], _PATIENCE)[0]:
            self._paused()
        data = os.read(self._handle, len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def pauses(paused: Callable[[], None]) -> Iterator[None]:
    """Within the block, whoever reads ``sys.stdin`` calls ``paused`` before each wait for more.

    Where files cannot be waited for (Windows), or standard input is not a file, nothing is called.
    """
    before = sys.stdin
    try:
        handle = before.fileno()
    except (OSError, ValueError, AttributeError):
        yield
        return
    if os.name == "nt":
        yield
        return
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_PausingInput(handle, paused)), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before
