"""Dropout: as torch's own in what it means, four draws from one random word in how it is made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.nn import Dropout, drop


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_wherever_they_stand(share: float) -> None:
    torch.manual_seed(1)
    dropped = drop(torch.ones(100_003, 4), share) == 0
    # Four standard deviations of a mean of 100,003 draws; each of the four draws of a word is looked at alone.
    assert (dropped.float().mean(0) - share).abs().max() < 4 * (share * (1 - share) / 100_003) ** 0.5


def test_draws_of_one_word_do_not_know_each_other() -> None:
    torch.manual_seed(2)
    dropped = (drop(torch.ones(100_003, 4), 0.5) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 4 / 100_003**0.5  # four standard deviations of no correlation


def test_the_mean_stays() -> None:
    kept = drop(torch.full((11, 13), 3.0), 0.25).unique()
    assert kept.tolist() == [0.0, 4.0]  # 0.25 is a multiple of 2⁻¹⁶, and 3 / 0.75 = 4 is exact


def test_gradients_pass_where_numbers_passed() -> None:
    x = torch.ones(7, 5, requires_grad=True)
    y = drop(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_nothing_happens_in_evaluation_and_at_zero() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert isinstance(Dropout(0.1), nn.Dropout)


def test_odd_sizes_other_dtypes_and_nothing_at_all() -> None:
    assert drop(torch.ones(1, dtype=torch.float64), 0.5).dtype == torch.float64
    assert drop(torch.ones(3, 7, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
    nothing = torch.ones(0, 5, requires_grad=True)
    assert drop(nothing, 0.5).shape == (0, 5)
    drop(nothing, 0.5).sum().backward()


def test_the_same_seed_drops_the_same() -> None:
    x = torch.ones(17, 3)
    first, second = (torch.manual_seed(5) and drop(x, 0.3) for _ in range(2))
    assert torch.equal(first, second)


def test_gradients_of_gradients_pass_there_too() -> None:
    x = torch.ones(7, 5, requires_grad=True)
    y = drop(x, 0.5)
    (first,) = torch.autograd.grad((y * x).sum(), x, create_graph=True)  # y is linear in x, so this is 2 y
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, 2 * y.detach())


def test_what_is_kept_for_the_gradient_is_one_bit_a_number() -> None:
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        drop(torch.ones(7, 5, requires_grad=True), 0.5)
    assert sum(tensor.nbytes for tensor in kept) == 5  # 35 bits


def test_a_share_next_to_one() -> None:
    assert drop(torch.ones(7, 5), 0.999995).isfinite().all()
    assert torch.equal(drop(torch.ones(1009, 1013), 1.0), torch.zeros(1009, 1013))
