"""A model through ``torch.compile``: few graphs for all lengths, and what fits none of them runs as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch
from torch import fx, nn

WARM_UP = 20
"""Updates in which graphs are made freely; lengths with and without padding, for one, have different ones."""

GRAPHS_LATER = 4
"""How many more may be made afterwards."""


class Compiled:
    """While in a ``with`` block, one method of ``objective`` is what ``torch.compile`` makes of it.

    That is ``hidden`` if it has one, the model without the loss, which makes its own gradients; else ``forward``.
    Lengths are left open from the start, so that a new one needs no new graph. Where code cannot be made (no compiler
    for the processor, no Triton), and once the graphs are as many as they may be, the rest runs uncompiled, which is
    said.

    Args:
        objective: the module.
        say: told in words when something is not compiled.
        backend: of torch.compile.

    Attributes:
        graphs: how many have been made.
    """

    def __init__(self, objective: nn.Module, say: Callable[[str], None], *, backend: str = "inductor") -> None:
        self.objective = objective
        self.method = "hidden" if hasattr(objective, "hidden") else "forward"
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

    @staticmethod
    def paused() -> AbstractContextManager[object]:
        """Return a context in which nothing is compiled: for validation, which would want graphs of its own."""
        stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
        return stance

    def __enter__(self) -> Compiled:
        from torch._dynamo import lookup_backend

        self._lower: Callable[..., Any] = lookup_backend(self.backend)
        written = getattr(self.objective, self.method)
        setattr(self.objective, self.method, torch.compile(written, backend=self._make, dynamic=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.compiler.set_stance("default")
        delattr(self.objective, self.method)  # what the class has comes to light again

    def _make(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Make one graph into code; where that fails it runs as it is."""
        self.graphs += 1
        try:
            code: Callable[..., Any] = self._lower(graph, inputs)
            return code
        except Exception as error:  # whatever a compiler may say
            if not self._gave_up:
                self._gave_up = True
                reason = str(error).split("\n", 1)[0]
                self.say(f"torch.compile cannot make code here, so training goes on uncompiled: {reason}")
            return graph.forward
