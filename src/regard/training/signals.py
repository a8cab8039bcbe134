"""Requests to stop, from the terminal or the system: noted while training, obeyed where the state is whole."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from regard.training.distributed import ALONE, Ranks

_REASONS = ("", "terminated", "interrupted")


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

    Args:
        told_twice: a launcher passes on the Ctrl-C that the terminal has sent to all: what comes within a second of
            the first is taken for the same.
    """

    def __init__(self, *, told_twice: bool = False) -> None:
        self._asked = ""
        self._echo = 1.0 if told_twice else 0.0
        self._when = 0.0
        self._at_once = False
        self._before: dict[int, Any] = {}

    def obey(self, ranks: Ranks = ALONE) -> None:
        """Raise StopRequest if a signal came, to any of the processes."""
        reason = _REASONS[int(ranks.most(_REASONS.index(self._asked))[0])]
        if reason:
            raise StopRequest(reason)

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
        now = time.monotonic()
        if number == signal.SIGINT and self._asked == "interrupted" and now - self._when >= self._echo:
            signal.default_int_handler(number, frame)
        if number == signal.SIGINT and self._asked != "interrupted":
            self._asked, self._when = "interrupted", now
        self._asked = self._asked or "terminated"
        if self._at_once:
            self._at_once = False
            self.obey()
