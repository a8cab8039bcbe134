"""How to call one kind of module, and what is known about it.

Axes: B rows, S source, T target, N rows being decoded, L tokens fed at once, V vocabulary or classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn

from regard.verification.inputs import Inputs, Side

Forward = Callable[[nn.Module, Inputs], Tensor]
"""(module, inputs) to logits: [B, T, V] where there is a target, else [B, V] or [B, S, V]."""

Loss = Callable[[nn.Module, Inputs], Tensor | tuple[Tensor, Any]]
"""(module, batch) to a loss, or to a sum of losses and the count of tokens summed over."""


@dataclass(frozen=True)
class Decoding:
    """Decoding with a cache.

    Attributes:
        start: (module, inputs) to the state before the first token; only the source of the inputs may be read.
        extend: (module, tokens [N, L], state) to (logits [N, L, V], next state).
        reorder: (module, state, rows [M]) to the state whose row i is row ``rows[i]``; None where that is not offered.
        chunks: Whether ``extend`` takes several tokens at once.
    """

    start: Callable[[nn.Module, Inputs], Any]
    extend: Callable[[nn.Module, Tensor, Any], tuple[Tensor, Any]]
    reorder: Callable[[nn.Module, Any, Tensor], Any] | None = None
    chunks: bool = True


@dataclass(frozen=True)
class Adapter:
    """How to call a module. The module is always an argument: what is called is the one under test, never a closure.

    ::

        Adapter(
            forward=lambda model, x: model(x.source, x.target_in, src_mask=x.real("source")),
            source=Tokens(size=8000, pad=0), target=Tokens(size=8000, pad=0, start=2), padding="lengths",
        )

    Attributes:
        forward: (module, inputs) to logits.
        source: What the source side reads; None for a decoder alone, which is causal over its target.
        target: What the target side reads; None for an encoder alone.
        padding: How the module learns what is padded: ``lengths`` (or masks made of them: anything may stand there),
            ``ids`` (it looks for the pad id) or ``none`` (it does not, and nothing is padded).
        decoding: How to decode with a cache, if it can.
        loss: How it is trained, if that is to be checked.
        paths: Other ways to compute the same logits, by name.
        ordered: False for a model that is meant to ignore order.
        attention_scale: What scores are meant to be multiplied by; None is 1/√K, ``any`` leaves it unchecked.
        causal_source: Whether an encoder is meant to see only what is before; None where that is unknown.
        residual: False for a model that is meant to have no residual connections.
        tied: Groups of parameters that are meant to be one, by name.
        unused: Patterns of parameters that the logits are not meant to depend on.
        rebuild: Makes a new module of the same kind, with weights of its own.
        described: How this adapter was arrived at, for the report.
    """

    forward: Forward
    source: Side | None = None
    target: Side | None = None
    padding: Literal["ids", "lengths", "none"] = "lengths"
    decoding: Decoding | None = None
    loss: Loss | None = None
    paths: Mapping[str, Forward] = field(default_factory=dict)
    ordered: bool = True
    attention_scale: float | Literal["any"] | None = None
    causal_source: bool | None = False
    residual: bool = True
    tied: tuple[tuple[str, ...], ...] = ()
    unused: tuple[str, ...] = ()
    rebuild: Callable[[], nn.Module] | None = None
    described: str = "called by the adapter given"

    def side(self, name: str) -> Side:
        """Return what the ``source`` or ``target`` side reads."""
        side = self.source if name == "source" else self.target
        assert side is not None, f"this adapter has no {name}"
        return side

    @property
    def sides(self) -> tuple[str, ...]:
        """Which sides there are."""
        return tuple(name for name, side in (("source", self.source), ("target", self.target)) if side is not None)
