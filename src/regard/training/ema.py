"""A second set of weights that follows the trained ones slowly: their exponential moving average.

After update n each becomes ``d * average + (1 - d) * weight`` with ``d = min(decay, (1 + n) / (10 + n))``, so that a
short run is not averaged with the random weights it began from. Polyak and Juditsky 1992; the rise of d is
TensorFlow's ``ExponentialMovingAverage``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.training.weights import load_tensors, tensor_bytes


class MovingAverage:
    """The moving average of the parameters of a module that are trained.

    Args:
        module: whose weights; where they are now, the average begins.
        decay: how much of the average an update keeps, from 0 to below 1.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.averages = self._copies()

    @torch.no_grad()
    def update(self, number: int) -> None:
        """Take in the weights after update ``number``, counted from 1."""
        decay = min(self.decay, (1 + number) / (10 + number))
        torch._foreach_lerp_(self.averages, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the module holds the averages, and afterwards its own weights again."""
        weights = self._copies()
        _copy(self.averages, self.parameters)
        try:
            yield
        finally:
            _copy(weights, self.parameters)

    def to_bytes(self) -> bytes:
        """Return the module as safetensors, with the averages in place of its weights."""
        with self.in_place():
            return tensor_bytes(self.module)

    def restore(self, data: bytes | Mapping[str, Tensor]) -> None:
        """Take back what `to_bytes` gave."""
        weights = self._copies()
        try:
            load_tensors(self.module, data)
            self.averages = self._copies()
        finally:
            _copy(weights, self.parameters)

    def _copies(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.parameters]


@torch.no_grad()
def _copy(values: list[Tensor], parameters: list[nn.Parameter]) -> None:
    for value, parameter in zip(values, parameters, strict=True):
        parameter.copy_(value)
