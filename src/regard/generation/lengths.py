"""How long sources are, and which of them to decode together.

Axes: B batch, S source length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from regard.generation.prefixes import Ints


def source_words(source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None) -> Ints:
    """Return the number of tokens of each row without its end mark, [B], on the host."""
    num_rows, width = source.shape
    lengths = np.full(num_rows, width) if source_lengths is None else source_lengths.cpu().numpy()
    return lengths.astype(np.int64) - 1


def by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of ``lengths`` in batches, longest first so that a batch too big fails at once.

    A batch's count times its longest is at most ``batch_tokens``, unless it is a single one.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
