"""Encoding for a search, sources of like length side by side: on a processor, padding costs as much as words.

Axes: B sources, S source length, H heads, K = d_model / H.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.models.seq2seq import DecoderState, Transformer
from regard.nn import KeysValues, KeyValueCache, Visibility

TOGETHER = 32
"""Sources encoded at a time: enough words to keep a product busy."""

_WORTH_IT = 0.9  # of the places of one rectangle: with more to encode, joining the pieces takes what they save


def start_by_length(
    model: Transformer, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None
) -> DecoderState:
    """Return what ``model.start`` does, its oracle; padding has zeros for keys and values, and nobody reads them.

    For a model whose parts treat each source by itself, and are not watched.
    """
    if source_lengths is None or source.device.type != "cpu":
        return model.start(source, source_lengths)
    order = source_lengths.argsort(descending=True)
    groups = [order[first : first + TOGETHER] for first in range(0, len(order), TOGETHER)]
    longest = [max(1, int(source_lengths[rows[0]])) for rows in groups]
    if sum(len(rows) * width for rows, width in zip(groups, longest, strict=True)) > _WORTH_IT * source.numel():
        return model.start(source, source_lengths)
    pieces = []
    for rows, width in zip(groups, longest, strict=True):
        memory = model.encode(source[rows, :width], source_lengths[rows])
        pieces.append((rows, model.decoder.keys_values(memory)))
    num_layers = len(model.decoder.layers)
    return DecoderState(
        memory=[_joined([(rows, layers[n]) for rows, layers in pieces], *source.shape) for n in range(num_layers)],
        source_visible=Visibility(key_lengths=source_lengths),
        caches=[KeyValueCache() for _ in range(num_layers)],
        sentences=torch.arange(len(source)),
    )


def _joined(pieces: Sequence[tuple[Tensor, KeysValues]], num_rows: int, width: int) -> KeysValues:
    _, heads, _, head_width = pieces[0][1].keys.shape
    keys, values = (pieces[0][1].keys.new_zeros(num_rows, heads, width, head_width) for _ in range(2))
    for rows, piece in pieces:
        keys[rows, :, : piece.keys.size(2)] = piece.keys
        values[rows, :, : piece.values.size(2)] = piece.values
    return KeysValues(keys, values)
