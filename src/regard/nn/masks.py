"""Who may attend to whom: the one place where masks are made, checked and combined.

Boolean, and True means *may attend*. Two axes always mean ``[Lq, Lk]``, never a padding flag: lengths have
:func:`padding_mask`, padded ids :func:`lengths_from_ids`.

Axes: B batch, H heads, Lq queries, Lk keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.protocols import PAD

Offset = int | Int[Tensor, "B"]
"""Where the first query (or new token) stands: one number for all rows, or one per row."""


Lengths = Int[Tensor, "B"] | None
"""Real places per row; None where nothing is padded."""


def real_places(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B size"]:
    """Tell the first ``lengths[b]`` of ``size`` places from the padding behind them."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def padding_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 1 size"]:
    """Return the mask under which the first ``lengths[b]`` of ``size`` keys may be attended to."""
    return real_places(lengths, size)[:, None, None, :]


def causal_mask(
    num_queries: int, num_keys: int, *, offset: Offset | None = None, device: torch.device | None = None
) -> Bool[Tensor, "*B Lq Lk"]:
    """Return the mask under which no query sees a key that stands after it (section 3.2.3).

    Query i stands at key position ``offset + i``. Left out, ``offset`` aligns the last query with the last key, which
    is the lower triangle when there are as many of both, and right when keys come from a cache.

    Returns:
        ``[Lq, Lk]``; with one offset per row ``[B, 1, Lq, Lk]``.
    """
    if isinstance(offset, Tensor):
        rows = offset.to(device)[:, None, None, None] + torch.arange(num_queries, device=device)[:, None]
        return torch.arange(num_keys, device=device) <= rows
    start = num_keys - num_queries if offset is None else offset
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril(start)


def lengths_from_ids(ids: Int[Tensor, "B L"], *, what: str = "ids") -> Int[Tensor, " B"]:
    """Return how many real tokens stand in each right-padded row.

    Raises:
        ShapeError: padding stands before a token. Left padding would shift every position.
    """
    real = ids != PAD
    lengths = real.sum(dim=1)
    inside = real & (torch.arange(ids.size(1), device=ids.device) >= lengths[:, None])
    if bool(inside.any()):
        row = int(inside.any(dim=1).nonzero()[0])
        raise ShapeError(
            f"{what} must be padded on the right, but row {row} has padding (id {PAD}) before a token; "
            "move the padding to the end of the row"
        )
    return lengths


def check_mask(mask: Tensor, *, name: str = "mask") -> Bool[Tensor, "#B #H #Lq Lk"]:
    """Return ``mask`` with four axes: ``[Lq, Lk]``, ``[B, Lq, Lk]`` and ``[B, 1|H, 1|Lq, Lk]`` are accepted.

    Raises:
        ShapeError: the mask is not boolean, or has another number of axes.
    """
    if mask.dtype != torch.bool:
        raise ShapeError(
            f"`{name}` must be boolean with True = may attend, but is {mask.dtype}; pass `{name} != 0` for 0/1 values, "
            f"`{name} == 0` for an additive mask of 0 and -inf"
        )
    if mask.ndim == 2:
        return mask[None, None]
    if mask.ndim == 3:
        return mask[:, None]
    if mask.ndim == 4:
        return mask
    raise ShapeError(
        f"`{name}` must be [Lq, Lk], [B, Lq, Lk] or [B, H, Lq, Lk], but has shape {list(mask.shape)}; "
        "for lengths use padding_mask(lengths, size)"
    )


def combine(*masks: Tensor | None) -> Bool[Tensor, "#B #H #Lq Lk"] | None:
    """Return the mask that allows what all ``masks`` allow; None stands for "everything"."""
    combined: Tensor | None = None
    for mask in masks:
        if mask is not None:
            combined = check_mask(mask) if combined is None else combined & check_mask(mask)
    return combined


@dataclass(frozen=True)
class Visibility:
    """Who may attend to whom, as one small value that travels from collation to attention.

    Attention asks it for a mask only when one is needed: without padding there is none to make, and knowing that
    takes no look at the device.

    Attributes:
        key_lengths: [B] real keys per row; None when no key is padding.
        causal: no query sees a key that stands after it.
        allowed: any further boolean mask, see :func:`check_mask`.
        offset: key position of the first query, or None when the last query stands at the last key.
    """

    key_lengths: Int[Tensor, " B"] | None = None
    causal: bool = False
    allowed: Bool[Tensor, "..."] | None = None
    offset: Offset | None = None

    def resolve(self, num_queries: int, num_keys: int, device: torch.device) -> tuple[Tensor | None, bool]:
        """Return ``(mask, causal)``: which keys each query may see, and whether causality is still to be added.

        Causality is left out of the mask only where it is all there is and the triangle is square: fused attention
        makes that one itself.
        """
        padding = None if self.key_lengths is None else padding_mask(self.key_lengths.to(device), num_keys)
        mask = combine(padding, None if self.allowed is None else self.allowed.to(device))
        if not self.causal:
            return mask, False
        start = num_keys - num_queries if self.offset is None else self.offset
        if not isinstance(start, Tensor):
            if start >= num_keys - 1:  # even the first query stands at the last key: one new token beside a cache
                return mask, False
            if mask is None and start == 0 and num_queries == num_keys:
                return None, True
        return combine(mask, causal_mask(num_queries, num_keys, offset=start, device=device)), False


EVERYTHING = Visibility()
"""Every query may attend to every key."""
