"""Wide matrices laid out once more, for products of several rows on a processor.

torch gives a product to a library that arranges the matrix anew each time. oneDNN, which torch has too, takes one that
was arranged before: from two rows on, and from some width on, that is sooner. The door to it has no public name (it is
torch's own compiler that uses it), so it is tried once: where it is missing, or gives something else, the plain product
stays, which is the oracle of the tests. One row goes by :mod:`regard.models.pieces`.

Axes: N rows, I features in, O features out.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.pieces import Map, linear_in_pieces

WIDE = 1 << 18
"""Numbers in a matrix from which it is worth it: 512 × 512."""

_FACTORS = torch.arange(1 << 13, dtype=torch.float32, device="cpu").cos_().add_(2)


class PackedWeights:
    """The packed matrices of one model, by name: made when first multiplied, held while the weights are what they were.

    They take as much memory as the weights do. A copy, in another process too, begins with none.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, Tensor]] = {}

    def __reduce__(self) -> tuple[type[PackedWeights], tuple[()]]:
        return PackedWeights, ()

    def linear(
        self, name: str, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None, *, least_rows: int = 2
    ) -> Map:
        """Return ``F.linear(·, weight, bias)`` for one search, which nobody differentiates through.

        Args:
            name: of the matrix in the model.
            weight: with other numbers than before, it is packed again.
            bias: added.
            least_rows: of a product that is worth the look at whether the numbers are the same as before.
        """
        if not _worth_packing(weight):
            self._held.pop(name, None)  # of weights that have become of another kind since
            return lambda x_NI: F.linear(x_NI, weight, bias)
        plain = linear_in_pieces(weight, bias)
        packed: Tensor | None = None

        def run(x_NI: Tensor) -> Tensor:
            nonlocal packed
            if x_NI.numel() < least_rows * x_NI.size(-1) or torch.is_grad_enabled():
                return plain(x_NI)
            if packed is None:
                packed = self._packed(name, weight)
            return _product(x_NI, packed, bias)

        return run

    def within(self, part: nn.Module, name: str, *, least_rows: int) -> nn.Module:
        """Return a twin of ``part``, which has nothing but known parts inside, that multiplies by packed matrices.

        It shares the weights, and is for one search.

        Args:
            part: of the model.
            name: of the part in the model.
            least_rows: see `linear`.
        """
        if type(part) is nn.Linear:
            return _Multiplied(self.linear(name, part.weight, part.bias, least_rows=least_rows))
        if not any(type(inner) is nn.Linear for inner in part.modules()):
            return part
        twin = copy(part)
        twin._modules = {
            key: child and self.within(child, f"{name}.{key}", least_rows=least_rows)
            for key, child in part._modules.items()
        }
        return twin

    def _packed(self, name: str, weight: Tensor) -> Tensor:
        mark = _mark(weight)
        held = self._held.get(name)  # once: another thread may be here too
        if held is None or held[0] != mark:
            held = self._held[name] = mark, _pack(weight)
        return held[1]


class _Multiplied(nn.Module):
    """A map in the place of the module that it was made of."""

    def __init__(self, run: Map) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)


def _worth_packing(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or weight.numel() < WIDE:
        return False
    return _can_pack() and not torch.is_autocast_enabled("cpu")


def _mark(weight: Tensor) -> object:
    """Return what is another when a weight is: nobody counts the changes that are made through ``.data``.

    The numbers are summed in stretches, each number times a factor of its own, so that what changes places is noticed
    too. Long stretches are read as fast as the memory goes, rows of a matrix half as fast.
    """
    numbers = (weight if weight.is_contiguous() else weight.t()).detach().reshape(-1)
    whole = len(numbers) // len(_FACTORS) * len(_FACTORS)
    sums = torch.mv(numbers[:whole].view(-1, len(_FACTORS)), _FACTORS)
    rest = torch.dot(numbers[whole:], _FACTORS[: len(numbers) - whole])
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, sums.numpy().tobytes(), rest.item()


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
