"""How is a number written with what it counts? One case, two cases."""

from __future__ import annotations


def plural(count: int, one: str, several: str | None = None) -> str:
    """Return ``1 case``, ``2 cases`` or ``1,203 cases``.

    Args:
        count: how many.
        one: what stands behind 1: a noun, perhaps with words around it, as ``entry is``.
        several: what stands behind every other number, 0 too; left out, ``one`` with an s.
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
