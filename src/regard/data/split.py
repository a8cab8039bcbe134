"""Which lines are held out for validation when no validation files are given?

Distinct source lines, chosen by their hash: the same text holds out the same lines whatever its order, pairs with one
source stay together, and most stay held out when the corpus grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.raw import RawCorpus
from regard.errors import DataError
from regard.plural import plural

_MOST = 5  # never more than a fifth of a small corpus


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out; no source line is in both.

    Attributes:
        train: row numbers, ascending.
        held_out: row numbers, ascending.
        num_sources: distinct source lines held out.
    """

    train: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]
    num_sources: int

    def sentence(self) -> str:
        """Say it in one line for people."""
        return (
            f"{plural(self.num_sources, 'distinct source line')} ({plural(len(self.held_out), 'pair')}) held out, "
            "chosen by their hash"
        )


def hold_out(
    raw: RawCorpus,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    share: float = 0.01,
    at_least: int = 100,
    at_most: int = 2000,
) -> Split:
    """Set a share of the distinct source lines aside.

    Args:
        raw: the text.
        rows: the rows to divide; None is all. Dividing ``train`` again gives a third part.
        share: of the distinct source lines.
        at_least: this many, but never more than a fifth of them.
        at_most: this many.

    Raises:
        DataError: there are too few distinct lines to hold one out.
    """
    rows = np.arange(len(raw), dtype=np.int64) if rows is None else rows
    hashes = raw.source_hash[rows]
    ordered = np.sort(hashes)  # numpy's own `unique` takes a minute for ten million
    is_first = np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    distinct = int(np.count_nonzero(is_first))
    wanted = min(max(round(share * distinct), at_least), at_most, distinct // _MOST)
    if wanted < 1:
        raise DataError(
            f"{plural(distinct, 'distinct source line is', 'distinct source lines are')} too few to hold some out for "
            "validation; give validation files"
        )
    held_out = hashes < ordered[np.flatnonzero(is_first)[wanted]]
    return Split(rows[~held_out], rows[held_out], wanted)
