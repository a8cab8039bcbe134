"""Requests to stop, from the terminal or the system: noted while training, obeyed where the state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class StopRequest(BaseException):
    """The run is asked to stop; ``reason`` is ``terminated`` or ``interrupted``.

    Not an Exception, because it must pass through a caller's ``except Exception``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Signals:
    """While in a ``with`` block, SIGTERM and the first Ctrl-C wait for `obey`; a second Ctrl-C stops at once.

    Outside the main thread, where Python allows no handlers, nothing is heard. The handlers before are restored.
    """

    def __init__(self) -> None:
        self._asked: str | None = None
        self._at_once = False
        self._before: dict[int, Any] = {}

    def obey(self) -> None:
        """Raise StopRequest if a signal came."""
        if self._asked:
            raise StopRequest(self._asked)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """In this ``with`` block, which must be safe to leave anywhere, a signal does not wait."""
        self.obey()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked = "terminated" if number == signal.SIGTERM else "interrupted"
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._at_once:
            self._at_once = False
            self.obey()
