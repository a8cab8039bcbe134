"""Where did two forwards that should agree part ways?

Axes: B rows, L positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.verification.inputs import Inputs
from regard.verification.subject import Subject


def spot(*place: int, layer: str = "") -> str:
    """Return a place (row; or row and position) in words, and the layer after which it is seen."""
    parts = [f"{name} {index}" for name, index in zip(("row", "position"), place, strict=False)]
    if layer:
        parts.append(f"first seen after {layer}")
    return ", ".join(parts)


def by_position(x: Tensor, shape: torch.Size | tuple[int, int]) -> Tensor | None:
    """Return ``x`` as [B, L, ...] if it has rows and positions in front, in either order; else None."""
    if x.ndim < 3:
        return None
    if tuple(x.shape[:2]) == tuple(shape):
        return x
    if tuple(x.shape[:2]) == tuple(shape)[::-1]:
        return x.transpose(0, 1)
    return None


def first_difference(subject: Subject, a: Inputs, b: Inputs, side: str, same: Tensor) -> str:
    """Return the path of the first module whose outputs for ``a`` and ``b`` differ at ``same`` [B, L] of a side.

    Children finish before their parents, so it is the innermost. Empty when no module can be blamed.
    """
    calls = zip(subject.trace(a).calls, subject.trace(b).calls, strict=False)
    for one, other in calls:
        if one.module != other.module or one.output is None or other.output is None:
            continue
        x, y = (by_position(t, same.shape) for t in (one.output, other.output))
        if x is None or y is None or x.shape != y.shape:
            continue
        difference = (x - y).double().abs().flatten(2).amax(dim=-1)
        if not bool((difference[same] <= subject.tolerance).all()):
            return one.module or type(subject.module).__name__
    return ""
