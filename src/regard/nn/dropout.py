"""Numbers set to zero at random in training, the others scaled up so that the mean stays (section 5.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 2**16


class Dropout(nn.Dropout):
    """``torch.nn.Dropout`` with cheaper draws on a CPU, see :func:`drop`.

    Args:
        p: The share that is dropped, from 0 up to but not 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with some of it dropped in training, and as it is in evaluation."""
        return drop(input, self.p) if self.training and self.p > 0 else input


def drop(x: Tensor, share: float) -> Tensor:
    """Return ``x`` with about ``share`` of its numbers set to zero and the rest divided by what is kept.

    On a CPU torch draws one number per element, one after the other on one thread, which is slower than the
    matrix product beside it. Here 64 random bits serve four elements, so ``share`` is rounded to a multiple of 2⁻¹⁶.
    """
    if x.device.type != "cpu":
        return F.dropout(x, share)
    dropped = round(share * _LEVELS)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None)  # without an upper end: all 64 bits
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    # straight into bytes: a comparison of 16-bit integers that gives booleans or numbers takes several times as long
    kept = torch.ge(draws, dropped - _LEVELS // 2, out=torch.empty(x.shape, dtype=torch.uint8))
    return Silence.apply(x, kept, _LEVELS / (_LEVELS - dropped))  # type: ignore[no-any-return, no-untyped-call]


class Silence(torch.autograd.Function):
    """``x · kept · scale``, where ``kept`` holds a byte per number: 1, or 0 for what is dropped.

    Its gradient is itself with the same bytes, which are kept for it: a quarter of what a mask of numbers would take.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        """Return a new tensor like ``x``."""
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return kept.to(x.dtype).mul_(x).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Silence and scale the same places."""
        return Silence.apply(gradient, *ctx.saved_tensors, ctx.scale), None, None  # type: ignore[no-untyped-call]
