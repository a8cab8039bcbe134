"""How a sublayer joins the stream that runs around it.

The norm itself is torch's ``nn.LayerNorm`` or ``nn.RMSNorm`` over the features of each position, handed in.

Axes: B batch, L tokens, D = d_model.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.dropout import Dropout, drop
from regard.nn.watched import is_watched

Sublayer = Callable[[Tensor], Tensor]


def join(x: Tensor, dropout: nn.Module, branch: Tensor) -> Tensor:
    """Return ``x + dropout(branch)``; the sum overwrites the dropped branch where nobody else can hold it."""
    alike = x.shape == branch.shape and x.dtype == branch.dtype
    if alike and type(dropout) is Dropout and dropout.training and dropout.p > 0 and not is_watched(dropout):
        return drop(branch, dropout.p).add_(x)
    return x + dropout(branch)  # type: ignore[no-any-return]


class PostNorm(nn.Module):
    """``norm(x + dropout(sublayer(x)))``: the paper's order (section 5.4).

    Args:
        norm: Over the features of a position.
        dropout: Share of what the sublayer makes that is dropped in training.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Float[Tensor, "B L D"], sublayer: Sublayer) -> Float[Tensor, "B L D"]:
        """Return the normalised sum of ``x_BLD`` and what ``sublayer`` makes of it."""
        return self.norm(join(x_BLD, self.dropout, sublayer(x_BLD)))  # type: ignore[no-any-return]


class PreNorm(nn.Module):
    """``x + dropout(sublayer(norm(x)))``: the stream itself is never normalised (Xiong et al. 2020).

    A stack of these wants a norm at its end, see :class:`regard.nn.stacks.Encoder`.

    Args:
        norm: Over the features of a position.
        dropout: Share of what the sublayer makes that is dropped in training.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Float[Tensor, "B L D"], sublayer: Sublayer) -> Float[Tensor, "B L D"]:
        """Return ``x_BLD`` plus what ``sublayer`` makes of its normalised self."""
        return join(x_BLD, self.dropout, sublayer(self.norm(x_BLD)))


class NoResidual(nn.Module):
    """``dropout(sublayer(norm(x)))``: the stream is cut at every sublayer, to show what the sum is for.

    Args:
        norm: Over the features of a position.
        dropout: Share of what the sublayer makes that is dropped in training.
    """

    def __init__(self, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Float[Tensor, "B L D"], sublayer: Sublayer) -> Float[Tensor, "B L D"]:
        """Return what ``sublayer`` makes of the normalised ``x_BLD``, and nothing of ``x_BLD`` itself."""
        return self.dropout(sublayer(self.norm(x_BLD)))  # type: ignore[no-any-return]
