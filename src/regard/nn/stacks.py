"""Layers on top of each other (section 3.1).

Axes: B batch, T target, S source, L either, D = d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.cache import KeysValues, KeyValueCache
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.masks import EVERYTHING, Visibility


class Encoder(nn.Module):
    """A stack of encoder layers.

    Args:
        make_layer: Called with 0, 1, …; each call makes a new layer with weights of its own.
        num_layers: How many.
        final_norm: Applied to the last layer's output; a pre-norm stack wants one.
    """

    def __init__(
        self, make_layer: Callable[[int], EncoderLayer], num_layers: int, *, final_norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make_layer(index) for index in range(num_layers))
        self.final_norm = final_norm if final_norm is not None else nn.Identity()

    def forward(self, x_BLD: Float[Tensor, "B L D"], visible: Visibility = EVERYTHING) -> Float[Tensor, "B L D"]:
        """Return the sequence as each position sees it after all layers."""
        for layer in self.layers:
            x_BLD = layer(x_BLD, visible)
        return self.final_norm(x_BLD)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A stack of decoder layers.

    Args:
        make_layer: Called with 0, 1, …; each call makes a new layer with weights of its own.
        num_layers: How many.
        final_norm: Applied to the last layer's output; a pre-norm stack wants one.
    """

    def __init__(
        self, make_layer: Callable[[int], DecoderLayer], num_layers: int, *, final_norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make_layer(index) for index in range(num_layers))
        self.final_norm = final_norm if final_norm is not None else nn.Identity()

    def keys_values(self, memory_BSD: Float[Tensor, "B S D"]) -> list[KeysValues]:
        """Return each layer's keys and values of the encoded source."""
        return [cast(DecoderLayer, layer).keys_values(memory_BSD) for layer in self.layers]

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        memory: Sequence[KeysValues],
        visible: Visibility,
        memory_visible: Visibility = EVERYTHING,
        *,
        caches: Sequence[KeyValueCache] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden target positions; ``memory`` and ``caches`` have one entry per layer."""
        for index, layer in enumerate(self.layers):
            cache = None if caches is None else caches[index]
            x_BTD = layer(x_BTD, memory[index], visible, memory_visible, cache=cache)
        return self.final_norm(x_BTD)  # type: ignore[no-any-return]
