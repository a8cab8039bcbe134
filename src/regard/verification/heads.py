"""Which linear map do the vectors of an attention come from, and which do its sums go to?

Followed by squared lengths: whatever lies between a projection and the product of queries and keys (a split into
heads, a scale, rotary positions), each position's length keeps one ratio to that of its projection.

Axes: B rows, L positions, H heads, K width of a head, R = B·L rows and W features of a linear map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from regard.verification.trace import Attention, Trace


def feature_ratio(trace: Trace, attention: Attention, x: Tensor, exactness: float) -> float | None:
    """Return the factor between ``x`` [B, H, L, K] and the projection that it is made of, or None if none is found."""
    heads = x.size(1)
    own = x.double().pow(2).sum(dim=(1, 3))  # [B, L]
    for squares in _projections(trace, attention, x):  # [B, L, number of heads it was made for]
        num_heads = squares.size(-1)
        if heads % num_heads:
            continue
        ratio = _constant(own, squares.sum(dim=-1), exactness)
        if ratio is not None:
            return math.sqrt(ratio * num_heads / heads)
    return None


def _projections(trace: Trace, attention: Attention, x: Tensor) -> Iterator[Tensor]:
    """Yield [B, L, heads]: squared lengths of K-wide blocks of whatever linear maps ``x`` may be made of."""
    batch, heads, length, width = x.shape
    for linear in reversed(trace.linears[: attention.linears]):
        rows, features = linear.output.shape
        if rows != batch * length or features % width:
            continue
        blocks = linear.output.double().reshape(rows, -1, width).pow(2).sum(dim=-1)  # [R, W / K]
        for grid in (blocks.reshape(batch, length, -1), blocks.reshape(length, batch, -1).transpose(0, 1)):
            for taken in (heads, *(h for h in range(1, heads) if heads % h == 0)):
                for start in range(grid.size(-1) - taken + 1):
                    yield grid[..., start : start + taken]
                if grid.size(-1) == 3 * taken:  # queries, keys and values side by side within each head
                    yield from (grid[..., part::3] for part in range(3))


def _constant(x: Tensor, y: Tensor, exactness: float) -> float | None:
    """Return x / y if it is the same everywhere, else None."""
    ratio = x / y
    mean = float(ratio.mean())
    # Lengths that differ nowhere would match anything: a constant tells nothing of where it came from.
    telling = float((y / y.mean() - 1).abs().max()) > 100 * exactness
    return mean if telling and mean > 0 and float((ratio / mean - 1).abs().max()) <= exactness else None


def heads_not_transposed(trace: Trace, attention: Attention, x: Tensor, exactness: float) -> bool:
    """Return whether ``x`` [B, H, L, K] is a projection [B, L, H·K] read in another order of axes."""
    batch, heads, length, width = x.shape
    if length == 1:
        return False
    own = x.double().pow(2).sum(dim=-1)
    for linear in trace.linears[: attention.linears]:
        rows, features = linear.output.shape
        if rows != batch * length:
            continue
        for start in range(0, features - heads * width + 1, width):
            part = linear.output[:, start : start + heads * width].double()
            for scrambled in (
                part.reshape(batch, heads, length, width),
                part.reshape(length, heads, batch, width).permute(2, 1, 0, 3),
            ):
                if _constant(own.flatten(), scrambled.pow(2).sum(dim=-1).flatten(), exactness) is not None:
                    return True
    return False


def merged_ratio(trace: Trace, attention: Attention, exactness: float) -> float | None:
    """Return 1 if the next linear map reads each position's sums side by side, or None if it does not."""
    into = _next_input(trace, attention)
    if into is None or attention.context is None:
        return None
    batch, _, length, _ = attention.context.shape
    own = attention.context.double().pow(2).sum(dim=(1, 3))
    rows = into.double().pow(2).sum(dim=-1)
    for grid in (rows.reshape(batch, length), rows.reshape(length, batch).T):
        ratio = _constant(own, grid, exactness)
        if ratio is not None:
            return ratio
    return None


def merged_without_transpose(trace: Trace, attention: Attention) -> bool:
    """Return whether the next linear map reads the sums [B, H, L, K] in another order of axes."""
    into = _next_input(trace, attention)
    if into is None or attention.context is None:
        return False
    return torch.equal(attention.context.flatten(), into.flatten().to(attention.context))


def _next_input(trace: Trace, attention: Attention) -> Tensor | None:
    context = attention.context
    if context is None:
        return None
    linears = trace.linears[attention.linears :]
    return next((linear.input for linear in linears if linear.input.numel() == context.numel()), None)
