"""Numbers set to zero at random in training, the others scaled up so that the mean stays (section 5.4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 2**16
_BITS = torch.arange(8, dtype=torch.uint8, device="cpu")[:, None]
"""The places of the bits in a byte."""


class Dropout(nn.Dropout):
    """``torch.nn.Dropout`` with cheaper draws on a CPU, see :func:`drop`.

    Args:
        p: The share that is dropped, from 0 to 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with some of it dropped in training, and as it is in evaluation."""
        return drop(input, self.p) if self.training and self.p > 0 else input


def drop(x: Tensor, share: float) -> Tensor:
    """Return ``x`` with about ``share`` of its numbers set to zero and the rest divided by what is kept.

    On a CPU torch draws one number per element, one after the other on one thread, which is slower than the
    matrix product beside it. Here 64 random bits serve four elements, so ``share`` is rounded to a multiple of 2⁻¹⁶.
    """
    # a compiler draws in its own way, and so does vmap, which may want other draws for each
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if x.device.type != "cpu" or share == 1 or transformed:
        return F.dropout(x, share)
    dropped = min(round(share * _LEVELS), _LEVELS - 1)
    words = torch.empty((x.numel() + 7) // 8 * 2, dtype=torch.int64)
    words.random_(-(2**63), None)  # without an upper end: all 64 bits
    # straight into bytes: a comparison of 16-bit integers that gives booleans or numbers takes several times as long
    kept = torch.empty(len(words) * 4, dtype=torch.uint8)
    torch.ge(words.view(torch.int16), dropped - _LEVELS // 2, out=kept)
    return Keep.apply(x, kept, _LEVELS / (_LEVELS - dropped))  # type: ignore[no-any-return, no-untyped-call]


class Keep(torch.autograd.Function):
    """``x · kept · scale``, where ``kept`` has 1 for each number of ``x`` that stays and 0 for each that is dropped.

    It is one byte a number, up to a multiple of eight. It is its own gradient; for that, one bit a number is held.
    """

    @staticmethod
    def forward(x: Tensor, kept: Tensor, scale: float) -> Tensor:
        """Return a new tensor like ``x``."""
        return kept[: x.numel()].view(x.shape).to(x.dtype).mul_(x).mul_(scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        """Hold the bits, for gradients and for tangents."""
        _, kept, ctx.scale = inputs
        bits = (kept.view(8, -1) << _BITS).sum(dim=0, dtype=torch.uint8)
        ctx.save_for_backward(bits)
        ctx.save_for_forward(bits)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Keep and scale the same places."""
        return Keep._again(ctx, gradient), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        """Keep and scale the same places."""
        return Keep._again(ctx, tangent)

    @staticmethod
    def _again(ctx: Any, x: Tensor) -> Tensor:
        bits: Tensor = ctx.saved_tensors[0]
        kept = (bits >> _BITS & 1).flatten()[: x.numel()].view(x.shape)
        return x * kept.to(x.dtype).mul_(ctx.scale)  # not in place: there may be several gradients at once
