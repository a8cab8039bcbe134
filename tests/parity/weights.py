"""What every parity test needs of weights: none of them at its initial value, and copying by a map of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.models import Transformer, tie

M = TypeVar("M", bound=nn.Module)

Names = Mapping[str, str | tuple[str, ...]]
"""Our name of a tensor → its name elsewhere, or the names of the parts stacked in it."""


@torch.no_grad()
def scramble(model: M, seed: int, *, size: float = 0.3) -> M:
    """Make every parameter random, biases and gains too: a one or a zero would hide a term that is forgotten.

    The row of PAD is random as well, for nobody may read it.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)
    return model


@torch.no_grad()
def copy_by_name(model: Transformer, theirs: Mapping[str, Tensor], names: Names) -> set[str]:
    """Fill all of ``model`` from ``theirs`` and return the names that were not taken."""
    ours = model.state_dict()
    assert set(names) == set(ours), set(names) ^ set(ours)
    for name, other in names.items():
        parts = (other,) if isinstance(other, str) else other
        value = torch.cat([theirs[part] for part in parts])
        assert value.shape == ours[name].shape, (name, value.shape, ours[name].shape)
        ours[name].copy_(value)
    tie(model)
    taken = {part for other in names.values() for part in ((other,) if isinstance(other, str) else other)}
    return set(theirs) - taken
