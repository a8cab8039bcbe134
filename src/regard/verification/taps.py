"""Changes to a running forward that the module does not know of.

`Taps` adds a zero to each embedded token, so that a gradient, or a change, can be asked for at any position although
ids have none. `dropout_kept_still` takes the randomness out of dropout.

Axes: B rows, L positions, E width of an embedding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from regard.verification.inputs import Inputs

_LOOKUPS = (F.embedding, torch.embedding, Tensor.__getitem__, torch.index_select, Tensor.index_select)


class Taps(TorchFunctionMode):
    """While entered, adds ``added[side]`` [B, L, E] to the vectors looked up for the ids of a side.

    Where nothing was given to add, a zero that requires a gradient is made. ``tables`` has the number of rows of the
    table that each side was looked up in. A side of frames is not looked up, so nothing is added there.
    """

    def __init__(self, inputs: Inputs, added: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        self.inputs = inputs
        self.added = dict(added or {})
        self.tables: dict[str, int] = {}
        self.weights: dict[str, Tensor] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func not in _LOOKUPS or not isinstance(output, Tensor) or not output.is_floating_point():
            return output
        tensors = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor)]
        ids = next((x for x in tensors if not x.is_floating_point() and x.dtype != torch.bool and x.ndim == 2), None)
        table = next((x for x in tensors if x.is_floating_point()), None)
        if ids is None or table is None or output.shape != (*ids.shape, table.size(-1)):
            return output
        for name in ("source", "target"):
            if not self.inputs.has(name) or self.inputs.side(name).is_floating_point():
                continue
            side = self.inputs.side(name).to(ids.device)
            if ids.shape == side.shape and torch.equal(ids, side.to(ids.dtype)):
                return output + self._of(name, output, table)
            if ids.shape == side.T.shape and torch.equal(ids, side.T.to(ids.dtype)):
                return output + self._of(name, output.transpose(0, 1), table).transpose(0, 1)
        return output

    def _of(self, name: str, vectors: Tensor, table: Tensor) -> Tensor:
        self.tables[name] = table.size(0)
        self.weights[name] = table
        if name not in self.added:
            self.added[name] = torch.zeros_like(vectors, requires_grad=True)
        return self.added[name].to(vectors)


SHARES = ("p", "dropout", "dropout_p", "dropout_rate")
"""What modules call the share that they drop."""


@contextmanager
def dropout_kept_still(module: nn.Module) -> Iterator[None]:
    """Let dropout keep everything: the shares that modules name are 0, and masks drawn all the same are full."""
    shares = [(part, name, vars(part).get(name)) for part in module.modules() for name in SHARES]
    dropped = [(part, name, share) for part, name, share in shares if isinstance(share, float) and 0 < share < 1]
    for part, name, _ in dropped:
        setattr(part, name, 0.0)
    try:
        with _FullMasks():  # type: ignore[no-untyped-call]
            yield
    finally:
        for part, name, share in dropped:
            setattr(part, name, share)


class _FullMasks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, the masks of torch's own dropout are full, whoever calls it."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.name()
        if name == "aten::native_dropout":
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        output = func(*args, **(kwargs or {}))
        if name == "aten::bernoulli_.float":  # the mask is divided by this probability next, which gives one
            return output.fill_(args[1] if len(args) > 1 else 0.5)
        return output
