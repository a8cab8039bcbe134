"""The position-wise feed-forward network: each position alone, D → F → D (section 3.3).

Axes: B batch, L tokens, D = d_model, F = d_ff.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.dropout import Dropout

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """``outer(dropout(activation(inner(x))))``: equation 2 when the activation is ReLU.

    Args:
        d_model: Width D.
        d_ff: Inner width F.
        activation: Applied to each inner feature.
        dropout: Share of inner features dropped in training.
        bias: Whether the two maps have one.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return each position's new features."""
        return self.outer(self.dropout(self.activation(self.inner(x_BLD))))  # type: ignore[no-any-return]


class GatedFeedForward(nn.Module):
    """``outer(dropout(activation(gate(x)) · inner(x)))``: one half opens and shuts the other (Shazeer 2020).

    Gate and inner map are one matrix product: rows ``[:F]`` of ``gate_inner`` are the gate, ``[F:]`` the inner map.

    Args:
        d_model: Width D.
        d_ff: Inner width F.
        activation: Applied to the gate.
        dropout: Share of inner features dropped in training.
        bias: Whether the maps have one.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.gate_inner = nn.Linear(d_model, 2 * d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return each position's new features."""
        gate, inner = self.gate_inner(x_BLD).chunk(2, dim=-1)  # 2 × [B, L, F]
        return self.outer(self.dropout(self.activation(gate) * inner))  # type: ignore[no-any-return]
