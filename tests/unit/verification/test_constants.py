from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.verification.constants import constant


def sines(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (sines(13, 6), "sines"),
        (sines(13, 6)[:, None], "sines"),  # [L, 1, D], as sequence-first models keep it
        (torch.cat(sines(13, 6).view(13, 3, 2).unbind(-1), dim=1), "sines"),  # sines in front, cosines behind
        (torch.ones(7, 7).tril(), "mask"),
        (torch.zeros(7, 7).masked_fill(torch.ones(7, 7).triu(1) > 0, -math.inf), "mask"),
    ],
)
def test_constants_are_known(values: Tensor, word: str) -> None:
    assert word in constant(values)


@pytest.mark.parametrize(
    "values", [torch.randn(13, 6), torch.ones(7), torch.eye(5), torch.zeros(5, 5), torch.ones(3, 4)]
)
def test_what_may_have_been_trained_is_not(values: Tensor) -> None:
    assert constant(values) == ""
