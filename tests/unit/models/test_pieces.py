"""One row by the pieces of a matrix gives what it gives by the whole.

Sums of seven numbers of about one in float32, in another order perhaps: a few roundings of 1e-7.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.models import pieces
from regard.models.pieces import linear_in_pieces


@pytest.fixture(autouse=True)
def every_matrix_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LONG", 1)


@pytest.fixture
def batched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that were multiplied."""
    sizes: list[int] = []
    multiply = torch.baddbmm
    monkeypatch.setattr(torch, "baddbmm", lambda b, x, w: sizes.append(len(w)) or multiply(b, x, w))  # type: ignore[func-returns-value]
    return sizes


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 13, 26])
def test_the_product_is_the_plain_one(
    bias: bool, by_columns: bool, threads: int, monkeypatch: pytest.MonkeyPatch, batched: list[int]
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(3)
    weight, added = torch.randn(26, 7, requires_grad=True), torch.randn(26) if bias else None
    laid_out = weight.detach().t().contiguous().t().requires_grad_() if by_columns else weight
    product = linear_in_pieces(laid_out, added)
    inputs = [torch.randn(shape) for shape in ((1, 7), (1, 1, 7), (7,), (0, 7), (5, 7), (2, 3, 7))]
    with torch.no_grad():
        for x in (*inputs, torch.randn(1, 14)[:, ::2]):
            torch.testing.assert_close(product(x), F.linear(x, weight, added), rtol=1e-5, atol=1e-5)
    assert batched == ([threads] * 4 if bias and threads not in (1, 3) else []), "one row is shared, others are not"


def test_it_follows_numbers_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    weight, x = torch.randn(26, 7, requires_grad=True), torch.randn(1, 7)
    product = linear_in_pieces(weight, None)
    product(x).sum().backward()
    torch.testing.assert_close(weight.grad, x.expand(26, 7))
    with torch.no_grad():
        weight.mul_(3)
        torch.testing.assert_close(product(x), F.linear(x, weight), rtol=1e-5, atol=1e-5)


def test_short_matrices_stay_whole(monkeypatch: pytest.MonkeyPatch, batched: list[int]) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(pieces, "LONG", 8)
    with torch.no_grad():
        linear_in_pieces(torch.randn(26, 7), torch.randn(26))(torch.randn(1, 7))
        assert not batched
        linear_in_pieces(torch.randn(26, 11), torch.randn(26))(torch.randn(1, 11))
    assert batched == [2]
