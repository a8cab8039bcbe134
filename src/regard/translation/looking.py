"""Where does a Transformer look as it writes each word? A decoder that tells.

Axes: N rows, H heads, S source length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

from regard.models import Transformer
from regard.nn import DecoderLayer
from regard.protocols import Step


class Looking:
    """A model as a StepDecoder whose steps carry the mean look of the heads of its last layer.

    The last layer, as it predicts a word, is nearest to an alignment of words. The model computes what it always does;
    the weights are worked out aside.

    Args:
        model: what is searched.
    """

    def __init__(self, model: Transformer) -> None:
        self._model = model

    def start(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None = None) -> Any:
        """Return the state of the model."""
        return self._model.start(source, source_lengths)

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> Step:
        """Feed the model, and say where each row looked, [N, S]."""
        heard: list[Tensor] = []
        last = cast(DecoderLayer, self._model.decoder.layers[-1])
        stop = last.cross_attention.listen(heard.append)
        try:
            step = self._model.step(tokens, state)
        finally:
            stop()
        return replace(step, attention=torch.cat(heard)[:, :, -1].mean(dim=1))

    def reorder(self, state: Any, rows: Int[Tensor, " M"]) -> Any:
        """Reorder the state of the model."""
        return self._model.reorder(state, rows)
