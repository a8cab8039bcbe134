"""Requests to stop, from the terminal or the system: heard while training, obeyed between two updates."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Signals:
    """While in a ``with`` block, SIGTERM and the first Ctrl-C are noted in ``asked``; a second Ctrl-C stops at once.

    Outside the main thread, where Python allows no handlers, nothing is heard. The handlers before are restored.

    Attributes:
        asked: None, ``terminated`` or ``interrupted``.
    """

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before: dict[int, Any] = {}

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
        self.asked = "terminated" if number == signal.SIGTERM else "interrupted"
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
