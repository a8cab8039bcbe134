"""How do several processes train one module? Alone, each with all of it (DDP), or each with parts (`.sharding`).

Always the gradients of all shares are summed, never averaged: losses are sums, and who holds all of them divides. Where
torch takes a mean over the processes, the losses are multiplied by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.protocols import BOS, EOS
from regard.training.distributed import Ranks


class Alone:
    """One process, which has everything.

    Args:
        objective: the module.
    """

    in_parts = False
    """Whether the parameters of the objective are parts, but inside of `gathered`."""

    def __init__(self, objective: nn.Module) -> None:
        self.module: Any = objective
        self.factor = 1

    def __call__(self, batch: Any) -> tuple[Tensor, int]:
        """Return the loss of a share and its tokens."""
        loss, count = self.module(batch)
        return loss, count

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients those of the losses of all processes."""
        (loss * self.factor).backward()  # type: ignore[no-untyped-call]

    def accumulating(self) -> AbstractContextManager[object]:
        """Return a context for shares before the last, whose gradients may wait for those of the last."""
        return nullcontext()

    def gathered(self) -> AbstractContextManager[object]:
        """Return a context in which this process has all weights, to be used forwards at its own pace."""
        return nullcontext()


class Copies(Alone):
    """Every process has all weights and its own copy of the optimiser's memory: DistributedDataParallel.

    Args:
        objective: the module; the first process tells the others its weights.
        ranks: the processes.
    """

    def __init__(self, objective: nn.Module, ranks: Ranks) -> None:
        self.factor = ranks.world
        self.module = DistributedDataParallel(objective, gradient_as_bucket_view=True)
        self.module.broadcast_buffers = False  # the argument of this name has another one in newer versions of torch

    def accumulating(self) -> AbstractContextManager[object]:
        """Keep the gradients here until those of the last share go around."""
        context: AbstractContextManager[object] = self.module.no_sync()
        return context


def spread(objective: nn.Module, ranks: Ranks, *, shard: bool) -> Alone:
    """Return what to call instead of ``objective``; with ``shard`` its parameters become parts, in place."""
    if ranks.world == 1:
        return Alone(objective)
    if shard:
        from regard.training.sharding import Parts  # torch needs a second to load what it takes

        return Parts(objective, ranks)
    return Copies(objective, ranks)


@dataclass(frozen=True)
class _Nothing:
    """A batch of one row that says nothing: for a process without a share, so that all go through the same steps."""

    source: Tensor = field(default_factory=lambda: torch.tensor([[EOS]]))
    source_lengths: Tensor | None = None
    target_in: Tensor = field(default_factory=lambda: torch.tensor([[BOS]]))
    target_out: Tensor = field(default_factory=lambda: torch.tensor([[EOS]]))
    target_lengths: Tensor | None = None
    num_target_tokens: int = 1
    example_ids: Sequence[int] = (0,)


NOTHING = _Nothing()
