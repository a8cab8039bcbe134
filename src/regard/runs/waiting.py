"""When is it worth saying that something takes a while? When somebody looks, or when it does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from regard.runs.saying import Say

_PATIENCE = 1.0  # seconds


@contextmanager
def telling(sentence: str, say: Say) -> Iterator[None]:
    """Say ``sentence`` at once on a terminal, and elsewhere if the block takes longer than a second."""
    if sys.stderr is not None and sys.stderr.isatty():
        say(sentence)
        yield
        return
    timer = threading.Timer(_PATIENCE, say, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
