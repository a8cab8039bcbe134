"""One row by a wide matrix on a processor: each thread multiplies by a piece of the matrix.

What such a product takes is the time to read the matrix, and torch's library reads it with one thread. A batch of
products it shares out among all threads, so the matrix becomes a batch of its pieces, which are views.

Axes: N rows, I features in, O features out, P pieces, Q = O / P.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

Map = Callable[[Float[Tensor, "N I"]], Float[Tensor, "N O"]]

LONG = 512
"""Features of both sides from which it is worth it: a model of fewer lies in the cache, where one thread is enough."""


def linear_in_pieces(weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> Map:
    """Return ``F.linear(·, weight, bias)``, the plain twin, made of as many pieces as there are threads for one row.

    It is for one search, which nobody differentiates through.
    """
    width, pieces = len(weight), torch.get_num_threads()
    if pieces == 1 or width % pieces or min(weight.shape) < LONG:
        return lambda x_NI: F.linear(x_NI, weight, bias)
    weight_PIQ = torch.unflatten(weight.detach(), 0, (pieces, -1)).transpose(1, 2)
    bias_P1Q = None if bias is None else bias.detach().view(pieces, 1, -1)

    def run(x_NI: Tensor) -> Tensor:
        if x_NI.numel() != x_NI.size(-1) or torch.is_grad_enabled():
            return F.linear(x_NI, weight, bias)
        x_P1I = x_NI.reshape(1, -1).expand(pieces, 1, -1)
        y_P1Q = x_P1I @ weight_PIQ if bias_P1Q is None else torch.baddbmm(bias_P1Q, x_P1I, weight_PIQ)
        return y_P1Q.view(*x_NI.shape[:-1], width)

    return run
