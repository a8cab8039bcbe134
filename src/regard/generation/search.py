"""The one door to search: which algorithm the options mean, and a list of any length in batches that fit.

Axes: B batch, S source length.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError
from regard.generation.beam import beam_search
from regard.generation.controls import Control, asked_by
from regard.generation.greedy import greedy_search
from regard.generation.hypothesis import Hypothesis
from regard.generation.lengths import by_length, padded
from regard.generation.options import SearchOptions
from regard.generation.phrases import ForcedPhrases
from regard.generation.sampling import sample
from regard.protocols import StepDecoder

_SHORTEST = 8
"""Source tokens: as many as a sentence counts at least where memory is shared out."""


def generate(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
    *,
    controls: Sequence[Control] = (),
    phrases: ForcedPhrases | None = None,
    sentences: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return the n-best list of each source row, or, with ``options.sampling``, what was drawn for it.

    Args:
        decoder: any model that can start, step and reorder; in evaluation mode, or dropout makes noise of it.
        source: ids, each row ended by EOS and padded on the right.
        source_lengths: real tokens per row; None when nothing is padded.
        options: beam, score, limits; or sampling.
        controls: change the scores of words, one after the other, after those that ``options`` ask for.
        phrases: what the outputs must contain; not with sampling.
        sentences: the number by which controls, phrases and seeds know each row; its place in the batch if not given.
    """
    options = options or SearchOptions()
    controls = [*asked_by(options), *controls]
    if options.sampling:
        if phrases:
            raise InputError("forced phrases need a beam search; they cannot be combined with sampling")
        return sample(
            decoder, source, source_lengths, options.sampling, options, controls=controls, sentences=sentences
        )
    if options.beam == 1 and not (controls or phrases or options.coverage_penalty):
        return [[hypothesis] for hypothesis in greedy_search(decoder, source, source_lengths, options)]
    return beam_search(
        decoder, source, source_lengths, options, controls=controls, phrases=phrases, sentences=sentences
    )


def generate_all(
    decoder: StepDecoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions | None = None,
    *,
    controls: Sequence[Control] = (),
    phrases: ForcedPhrases | None = None,
    sentences: Sequence[int] | None = None,
    batch_tokens: int = 4096,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return what ``generate`` does for each source, in the order given; what is decoded together has similar lengths.

    Args:
        decoder: as in ``generate``.
        sources: ids, each ended by EOS.
        options: as in ``generate``.
        controls: as in ``generate``.
        phrases: as in ``generate``.
        sentences: the number by which controls, phrases and seeds know each source; its place among them if not given.
        batch_tokens: source tokens decoded at once, padding and the beam's copies included; at least one sentence.
            Short sentences count as if they had more, for each has the scores of a whole vocabulary at a time.
        device: where the decoder is.
    """
    options = options or SearchOptions()
    results: list[list[Hypothesis]] = [[] for _ in sources]
    copies = options.sampling.samples if options.sampling else options.beam
    for batch in by_length([max(len(source), _SHORTEST) for source in sources], batch_tokens // copies):
        found = generate(
            decoder,
            *padded([sources[index] for index in batch], device),
            options,
            controls=controls,
            phrases=phrases,
            sentences=batch if sentences is None else [sentences[index] for index in batch],
        )
        for index, hypotheses in zip(batch, found, strict=True):
            results[index] = hypotheses
    return results
