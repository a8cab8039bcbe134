"""How long sources are, which of them to decode together, and how they become one rectangle.

Axes: B batch, S source length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.generation.prefixes import Ints
from regard.protocols import PAD


def source_words(source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None) -> Ints:
    """Return the number of tokens of each row without its end mark, [B], on the host."""
    num_rows, width = source.shape
    lengths = np.full(num_rows, width) if source_lengths is None else source_lengths.cpu().numpy()
    return lengths.astype(np.int64) - 1


def padded(
    sources: Sequence[Sequence[int]], device: torch.device | str = "cpu"
) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"] | None]:
    """Return the sources side by side, padded on the right, and their lengths, None when nothing is padded."""
    lengths = torch.tensor([len(source) for source in sources])
    rows = torch.full((len(sources), int(lengths.max())), PAD)
    for row, source in enumerate(sources):
        rows[row, : len(source)] = torch.tensor(source)
    return rows.to(device), lengths.to(device) if bool((lengths != rows.shape[1]).any()) else None


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
