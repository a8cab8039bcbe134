"""Which tensors are constants that nobody trains?

Axes: L positions, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def constant(values: Tensor) -> str:
    """Return what ``values`` are, a table of sines or a mask; or nothing, if they may have been trained."""
    x = values.double().squeeze()
    if x.ndim < 2 or min(x.shape[-2:]) < 2:
        return ""
    x = x.reshape(-1, *x.shape[-2:])[0]
    squares = x.pow(2).sum(dim=1)
    half = x.size(1) / 2
    first = bool(((x[0].abs() < 1e-6) | ((x[0] - 1).abs() < 1e-6)).all()) and bool(x[0].any())
    if first and float((squares - half).abs().max()) < 1e-2 * half and float(x.abs().max()) <= 1 + 1e-6:
        return "a table of sines and cosines"
    if bool((x == -torch.inf).any()) or (
        x.size(0) == x.size(1) and bool(((x == 0) | (x == 1)).all()) and _triangular(x)
    ):
        return "a mask"
    return ""


def _triangular(x: Tensor) -> bool:
    return (
        bool(x.any())
        and (torch.equal(x, x.tril()) or torch.equal(x, x.triu()))
        and not torch.equal(x, torch.eye(len(x)).to(x))
    )
