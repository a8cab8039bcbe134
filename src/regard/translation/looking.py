"""Where does a Transformer look as it writes each word? A decoder that tells.

Axes: N rows, H heads, S source length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

from regard.inspection.alignment import aligning_layer
from regard.models import Transformer
from regard.nn import DecoderLayer
from regard.protocols import Step


class Looking:
    """A model as a StepDecoder whose steps carry the mean look of the heads of the layer that aligns best.

    Which that is, `regard.inspection.aligning_layer` knows. The model computes what it always does; the weights are
    worked out aside.

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
        layers = self._model.decoder.layers
        aligning = cast(DecoderLayer, layers[aligning_layer(len(layers))])
        stop = aligning.cross_attention.listen(heard.append)
        try:
            step = self._model.step(tokens, state)
        finally:
            stop()
        return replace(step, attention=torch.cat(heard)[:, :, -1].mean(dim=1))

    def reorder(self, state: Any, rows: Int[Tensor, " M"]) -> Any:
        """Reorder the state of the model."""
        return self._model.reorder(state, rows)
