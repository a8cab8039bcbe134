"""Each process holds a part of every weight, of its gradient and of what the optimiser remembers of it: FSDP2.

Zhao et al. 2023, "PyTorch FSDP"; the parts are torch's DTensors, which optimisers and norms understand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.training.distributed import Ranks
from regard.training.parallel import Alone


class Parts(Alone):
    """An objective whose parameters are parts, made in place.

    The entries of every ``ModuleList``, the layers of a stack, are gathered one at a time when they are needed; all
    other parameters together. Gradients of shares before the last go around too: there is no room to keep whole ones.

    Args:
        objective: the module, with the same weights in every process.
        ranks: the processes.
    """

    in_parts = True

    def __init__(self, objective: nn.Module, ranks: Ranks) -> None:
        self.module = objective
        mesh = init_device_mesh(ranks.device.type, (ranks.world,))
        layers = [layer for part in objective.modules() if isinstance(part, nn.ModuleList) for layer in part]
        for part in (*layers, objective):
            fully_shard(part, mesh=mesh)
        self._parts = [part for part in objective.modules() if isinstance(part, FSDPModule)]
        for part in self._parts:
            part.set_gradient_divide_factor(1.0)

    def gathered(self) -> AbstractContextManager[object]:
        """Gather all weights at the start, so that no forward pass waits for the other processes."""
        return self._gathered()

    @contextmanager
    def _gathered(self) -> Iterator[None]:
        for part in self._parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in self._parts:
                part.reshard()
                part.set_reshard_after_forward(part is not self.module, recurse=False)


def part_of(tensor: Tensor, example: DTensor) -> Tensor:
    """Return the part of ``tensor``, which every process has, that this one keeps of ``example``."""
    return distribute_tensor(tensor, example.device_mesh, example.placements, src_data_rank=None)
