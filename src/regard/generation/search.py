"""The one door to search: which algorithm the options mean, and a list of any length in batches that fit.

Axes: B batch, S source length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.generation.beam import beam_search
from regard.generation.greedy import greedy_search
from regard.generation.hypothesis import Hypothesis
from regard.generation.lengths import by_length
from regard.generation.options import SearchOptions
from regard.protocols import PAD, StepDecoder


def generate(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
) -> list[list[Hypothesis]]:
    """Return the n-best list of each source row.

    Args:
        decoder: any model that can start, step and reorder; in evaluation mode, or dropout makes noise of it.
        source: ids, each row ended by EOS and padded on the right.
        source_lengths: real tokens per row; None when nothing is padded.
        options: beam, score and limits.
    """
    options = options or SearchOptions()
    if options.beam == 1:
        return [[hypothesis] for hypothesis in greedy_search(decoder, source, source_lengths, options)]
    return beam_search(decoder, source, source_lengths, options)


def generate_all(
    decoder: StepDecoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions | None = None,
    *,
    batch_tokens: int = 4096,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the n-best list of each source, in the order given; what is decoded together is of similar length.

    Args:
        decoder: as in ``generate``.
        sources: ids, each ended by EOS.
        options: as in ``generate``.
        batch_tokens: source tokens decoded at once, padding and the beam's copies included; at least one sentence.
        device: where the decoder is.
    """
    options = options or SearchOptions()
    results: list[list[Hypothesis]] = [[] for _ in sources]
    for batch in by_length([len(source) for source in sources], batch_tokens // options.beam):
        lengths = torch.tensor([len(sources[index]) for index in batch])
        padded = torch.full((len(batch), int(lengths.max())), PAD)
        for row, index in enumerate(batch):
            padded[row, : len(sources[index])] = torch.tensor(sources[index])
        is_padded = bool((lengths != padded.shape[1]).any())
        found = generate(decoder, padded.to(device), lengths.to(device) if is_padded else None, options)
        for index, hypotheses in zip(batch, found, strict=True):
            results[index] = hypotheses
    return results
