"""Which parts of a model does a person mean? ``layer:3.head:2`` fits every attention that has such a head."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from regard.errors import InputError, nearest


def fitting(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that ``pattern`` fits, in their order.

    A pattern has some of the steps of a name, in its order, and the last one: ``layer:3.head:2`` fits
    ``decoder.layer:3.cross.head:2``; ``*`` in a step stands for anything.

    Raises:
        InputError: It fits none; the message has the nearest.
    """
    names = list(names)
    found = [name for name in names if _fits(pattern.split("."), name.split("."))]
    if not found:
        raise InputError(f"there is no {pattern!r}{nearest(pattern, names) if names else ''}")
    return found


def _fits(wanted: list[str], steps: list[str]) -> bool:
    if not fnmatchcase(steps[-1], wanted[-1]):
        return False
    left = iter(steps[:-1])
    return all(any(fnmatchcase(step, one) for step in left) for one in wanted[:-1])
