"""Who tells the user what is going on? A callable that takes sentences, apart from the results."""

from __future__ import annotations

import sys
from collections.abc import Callable

Say = Callable[[str], None]
"""Tells the user something, outside of the results."""


def say_on_stderr(sentence: str) -> None:
    """Print a sentence where results do not go."""
    print(sentence, file=sys.stderr, flush=True)


def say_nothing(sentence: str) -> None:
    """Keep quiet."""
