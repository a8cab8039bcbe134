"""Does one file stand for both sides? Told wherever pairs are read."""

from __future__ import annotations


def doubt_of_copies(same: int, pairs: int) -> str | None:
    """Return a warning if both sides are the ``same`` text in more than half of the ``pairs``."""
    if 2 * same <= pairs:
        return None
    share = f"{same / pairs:.0%}"
    return f"source and target are the same text in {share} of the pairs; look whether one file stands for both sides"
