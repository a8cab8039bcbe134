"""Greedy search's own arithmetic; what it finds is held to beam 1 and to enumeration in `test_beam`."""

from __future__ import annotations

import math

import pytest
import torch

from regard.generation.greedy import largest


@pytest.mark.parametrize(("rows", "words"), [(1, 5), (2, 127), (3, 128), (601, 131), (599, 256), (7, 10_007)])
@pytest.mark.parametrize("values", [3, 1 << 20])
def test_the_largest_is_that_of_torch_and_stands_first(rows: int, words: int, values: int) -> None:
    x = torch.randint(0, values, (rows, words), generator=torch.Generator().manual_seed(0)).float()
    best, place = largest(x)
    expected, first = x.max(dim=-1)
    assert torch.equal(best, expected)
    assert torch.equal(place, first)


def test_nothing_is_larger_than_nan() -> None:
    x = torch.zeros(11, 10_007)
    x[3, 10_006] = x[5, 17] = math.nan
    assert largest(x)[0].isnan().tolist() == [row in (3, 5) for row in range(11)]
