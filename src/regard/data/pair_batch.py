"""How do ragged ids become one rectangle? Sources end with EOS; targets are read after BOS and predicted up to EOS.

Axes: B rows, S longest source, T longest target. Padding is on the right only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.columns import Ids
from regard.protocols import BOS, EOS, PAD


@dataclass(frozen=True)
class PairBatch:
    """A padded batch of pairs; see ``regard.protocols.Batch``.

    Attributes:
        source: each row ended by EOS.
        source_lengths: real source tokens per row, EOS included; None when no row is padded.
        target_in: BOS and the target: what the decoder reads.
        target_out: the target and EOS: what it must predict.
        target_lengths: real target tokens per row, BOS or EOS included; None when no row is padded.
        num_target_tokens: real tokens of ``target_out``.
        example_ids: which example each row is.
    """

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, " B"] | None
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    target_lengths: Int[Tensor, " B"] | None
    num_target_tokens: int
    example_ids: tuple[int, ...]

    def to(self, device: torch.device | str) -> PairBatch:
        """Return the batch on ``device``; from pinned memory the copy does not wait."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return PairBatch(
            source=move(self.source),
            source_lengths=None if self.source_lengths is None else move(self.source_lengths),
            target_in=move(self.target_in),
            target_out=move(self.target_out),
            target_lengths=None if self.target_lengths is None else move(self.target_lengths),
            num_target_tokens=self.num_target_tokens,
            example_ids=self.example_ids,
        )


def collate(examples: Sequence[tuple[Ids, Ids, int]], *, decoder_inputs: Sequence[Ids] | None = None) -> PairBatch:
    """Make a batch of (source ids, target ids, example id), given without BOS or EOS.

    Args:
        examples: the rows; without any, both widths are 1.
        decoder_inputs: what the decoder reads after BOS instead of the targets, of the same lengths: noise goes there.
    """
    source, source_lengths = collate_sources([source for source, _, _ in examples])
    targets = [target for _, target, _ in examples]
    target_in, target_lengths = _rectangle(targets if decoder_inputs is None else decoder_inputs, first=BOS)
    target_out, _ = _rectangle(targets, last=EOS)
    return PairBatch(
        source=source,
        source_lengths=source_lengths,
        target_in=target_in,
        target_out=target_out,
        target_lengths=target_lengths,
        num_target_tokens=sum(map(len, targets)) + len(targets),
        example_ids=tuple(example for _, _, example in examples),
    )


def collate_sources(sources: Sequence[Ids]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"] | None]:
    """End each source with EOS and pad; return (source, lengths), lengths None when no row is padded."""
    return _rectangle(sources, last=EOS)


def _rectangle(
    rows: Sequence[Ids], *, first: int | None = None, last: int | None = None
) -> tuple[Int[Tensor, "B L"], Int[Tensor, " B"] | None]:
    """Pad rows, each with ``first`` before it or ``last`` after it."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + 1
    filled = np.full((len(rows), int(lengths.max(initial=1))), PAD, dtype=np.int64)
    start = 0 if first is None else 1
    for row, ids in enumerate(rows):
        filled[row, start : start + len(ids)] = ids
    if first is not None:
        filled[:, 0] = first
    if last is not None:
        filled[np.arange(len(rows)), lengths - 1] = last
    padded = bool((lengths != lengths[:1]).any())
    return torch.from_numpy(filled), torch.from_numpy(lengths) if padded else None
