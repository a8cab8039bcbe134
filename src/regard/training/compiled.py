"""The objective through ``torch.compile``: few graphs for all lengths, and what fits none of them runs as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, fx, nn

WARM_UP = 20
"""Updates in which graphs are made freely; lengths with and without padding, for one, have different ones."""

GRAPHS_LATER = 4
"""How many more may be made afterwards."""


class Compiled:
    """While in a ``with`` block, calling ``objective`` runs what ``torch.compile`` makes of it.

    Lengths are left open from the start, so that a new one needs no new graph. Where code cannot be made (no compiler
    for the processor, no Triton), and once the graphs are as many as they may be, the rest runs uncompiled, which is
    said.

    Args:
        objective: the module; its other methods stay as they are.
        say: told in words when something is not compiled.
        backend: of torch.compile.

    Attributes:
        graphs: how many have been made.
    """

    def __init__(self, objective: nn.Module, say: Callable[[str], None], *, backend: str = "inductor") -> None:
        self.objective = objective
        self.say = say
        self.backend = backend
        self.graphs = 0
        self._updates = 0
        self._limit: int | None = None
        self._gave_up = False

    def count_update(self) -> None:
        """Note that an update is made; after the warm-up this bounds the graphs."""
        self._updates += 1
        if self._updates == WARM_UP:
            self._limit = self.graphs + GRAPHS_LATER
        if self._limit is not None and self.graphs >= self._limit:
            self._limit = None
            torch.compiler.set_stance("eager_on_recompile")
            self.say(f"torch.compile has made {self.graphs} graphs; what fits none of them runs uncompiled from now on")

    def __enter__(self) -> Compiled:
        from torch._dynamo import lookup_backend

        self._lower: Callable[..., Any] = lookup_backend(self.backend)
        self.objective.compile(backend=self._make, dynamic=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.compiler.set_stance("default")
        self.objective._compiled_call_impl = None  # as torch.nn.Module.compile leaves it; there is no other way back

    def _make(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """Make one graph into code; where that fails it runs as it is."""
        self.graphs += 1
        try:
            return self._lower(graph, inputs)  # type: ignore[no-any-return]
        except Exception as error:  # whatever a compiler may say
            if not self._gave_up:
                self._gave_up = True
                reason = str(error).split("\n", 1)[0]
                self.say(f"torch.compile cannot make code here, so training goes on uncompiled: {reason}")
            return graph.forward
