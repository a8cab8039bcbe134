"""What is a number in a file of text, and what a missing one?"""

from __future__ import annotations

_MISSING = ("", "nan", "na", "n/a")


def as_number(text: str) -> float:
    """Return the number that ``text`` is; NaN where it is empty, ``NaN``, ``NA`` or ``N/A``.

    Raises:
        ValueError: it is none, which the message says; ``1_000`` is one in Python alone.
    """
    if text.lower() in _MISSING:
        return float("nan")
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise ValueError(f"{text[:40]!r} is no number")


def is_number(text: str) -> bool:
    """Whether ``text`` is a number, or a missing one."""
    try:
        as_number(text)
    except ValueError:
        return False
    return True
