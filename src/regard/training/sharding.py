"""Each process holds a part of every weight, of its gradient and of what the optimiser remembers of it: FSDP2.

Zhao et al. 2023, "PyTorch FSDP"; the parts are torch's DTensors, which optimisers and norms understand.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import isfunction
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.training.distributed import Ranks
from regard.training.parallel import Alone


class Parts(Alone):
    """An objective whose parameters are parts, made in place.

    The entries of every ``ModuleList``, the layers of a stack, are gathered one at a time when one of their public
    methods is called; all other parameters together. Gradients of shares before the last go around too: there is no
    room to keep whole ones.

    Args:
        objective: the module, with the same weights in every process.
        ranks: the processes.
    """

    in_parts = True

    def __init__(self, objective: nn.Module, ranks: Ranks) -> None:
        self.module, self.factor = objective, ranks.world
        mesh = init_device_mesh(ranks.device.type, (ranks.world,))
        layers = [layer for part in objective.modules() if isinstance(part, nn.ModuleList) for layer in part]
        for tensor in objective.state_dict().values():
            dist.broadcast(tensor, 0)
        for part in (*layers, objective):
            fully_shard(part, mesh=mesh)
        for layer in layers:
            for name in _methods(layer):
                register_fsdp_forward_method(layer, name)
        self._parts = [part for part in objective.modules() if isinstance(part, FSDPModule)]

    def __call__(self, batch: Any) -> tuple[Tensor, int]:
        """Return the loss of a share and its tokens."""
        with _of_views():
            return super().__call__(batch)

    def gathered(self) -> AbstractContextManager[object]:
        """Gather all weights at the start, so that no forward pass waits for the other processes."""
        return self._gathered()

    @contextmanager
    def _gathered(self) -> Iterator[None]:
        for part in self._parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            with _of_views():
                yield
        finally:
            for part in self._parts:
                part.reshard()
                part.set_reshard_after_forward(part is not self.module, recurse=False)


@contextmanager
def _of_views() -> Iterator[None]:
    """Leave out a warning that has no cause here: keys and values are views, which nobody changes in place."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        yield


def _methods(layer: nn.Module) -> Iterator[str]:
    """Yield the methods beside ``forward`` that the class of a layer offers to its stack."""
    for kind in type(layer).__mro__:
        if issubclass(kind, nn.Module) and kind not in (nn.Module, FSDPModule):
            yield from (n for n, f in vars(kind).items() if isfunction(f) and not n.startswith("_") and n != "forward")


def part_of(tensor: Tensor, example: DTensor) -> Tensor:
    """Return the part of ``tensor``, which every process has, that this one keeps of ``example``."""
    return distribute_tensor(tensor, example.device_mesh, example.placements, src_data_rank=None)
