"""Wide matrices laid out once more, for products of several rows on a processor.

torch gives a product to a library that arranges the matrix anew each time. oneDNN, which torch has too, takes one that
was arranged before: from two rows on, and from some width on, that is sooner. The door to it has no public name (it is
torch's own compiler that uses it), so it is tried once: where it is missing, or gives something else, the plain product
stays, which is the oracle of the tests.

Axes: N rows, I features in, O features out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

WIDE = 1 << 18
"""Numbers in a matrix from which it is worth it: 512 × 512."""

Map = Callable[[Float[Tensor, "N I"]], Float[Tensor, "N O"]]


class PackedWeights:
    """The packed matrices of one model, by name: made when first multiplied, held while the weights are what they were.

    They take as much memory as the weights do. A copy, in another process too, begins with none.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, Tensor]] = {}

    def __reduce__(self) -> tuple[type[PackedWeights], tuple[()]]:
        return PackedWeights, ()

    def linear(self, name: str, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> Map:
        """Return ``F.linear(·, weight, bias)`` for one search, which nobody differentiates through.

        Args:
            name: of the matrix in the model.
            weight: with other numbers than before, it is packed again.
            bias: added.
        """
        if not _worth_packing(weight):
            return lambda x_NI: F.linear(x_NI, weight, bias)
        mark = _mark(weight)
        packed: Tensor | None = None

        def run(x_NI: Tensor) -> Tensor:
            nonlocal packed
            if len(x_NI) == 1 or torch.is_grad_enabled():
                return F.linear(x_NI, weight, bias)
            if packed is None:
                packed = self._packed(name, weight, mark)
            return _product(x_NI, packed, bias)

        return run

    def _packed(self, name: str, weight: Tensor, mark: object) -> Tensor:
        held = self._held.get(name)  # once: another thread may be here too
        if held is None or held[0] != mark:
            held = self._held[name] = mark, _pack(weight)
        return held[1]


def _worth_packing(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or weight.numel() < WIDE:
        return False
    return _can_pack() and not torch.is_autocast_enabled("cpu")


def _mark(weight: Tensor) -> object:
    """Return what is another when a weight is: nobody counts the changes that are made through ``.data``.

    Each row is summed with a factor of its own for each column, so that numbers that change places are noticed too.
    """
    factors = torch.arange(weight.size(1), dtype=weight.dtype).cos_().add_(2)
    sums = torch.mv(weight.detach(), factors)
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version, sums.numpy().tobytes()


def _pack(weight: Tensor) -> Tensor:
    return cast(Tensor, cast(Any, torch.ops.mkldnn)._reorder_linear_weight(weight.detach()))


def _product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return cast(Tensor, cast(Any, torch.ops.mkldnn)._linear_pointwise(x, packed, bias, "none", [], ""))


@cache
def _can_pack() -> bool:
    """Tell whether this torch has the product, called as it is here, with the result that is expected."""
    x, weight, bias = (torch.linspace(-1, 1, n).view(shape) for n, shape in ((15, (3, 5)), (35, (7, 5)), (7, (7,))))
    try:
        return torch.allclose(_product(x, _pack(weight), bias), F.linear(x, weight, bias))
    except (AttributeError, RuntimeError, TypeError):
        return False
