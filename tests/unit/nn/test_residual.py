"""Residuals: where the norm stands, and what dropout touches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.nn import NoResidual, PostNorm, PreNorm

X = torch.tensor([[[1.0, 3.0]]])


class Double(nn.Module):
    """Stands for a norm, and shows where it was."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def test_post_norm_normalises_the_sum() -> None:
    assert PostNorm(Double())(X, lambda x: x + 10).tolist() == [[[2 * (1 + 11), 2 * (3 + 13)]]]


def test_pre_norm_leaves_the_stream_alone() -> None:
    assert PreNorm(Double())(X, lambda x: x + 10).tolist() == [[[1 + 12, 3 + 16]]]


def test_no_residual_cuts_the_stream() -> None:
    assert NoResidual(Double())(X, lambda x: x + 10).tolist() == [[[12, 16]]]


def test_post_norm_by_hand() -> None:
    # (1, 3) + (0.5, -0.5) = (1.5, 2.5): mean 2, deviation 0.5
    out = PostNorm(nn.LayerNorm(2, eps=0))(X, lambda x: torch.tensor([[[0.5, -0.5]]]))
    torch.testing.assert_close(out, torch.tensor([[[-1.0, 1.0]]]))


@pytest.mark.parametrize("kind", [PostNorm, PreNorm, NoResidual])
def test_dropout_falls_on_what_the_sublayer_adds(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    x = torch.full((1, 1, 1009), 3.0)
    residual = kind(nn.Identity(), 0.5)
    around = x if kind is not NoResidual else torch.zeros_like(x)
    added = residual(x, torch.ones_like) - around
    assert set(added.unique().tolist()) == {0.0, 2.0}  # kept features are scaled up by 1 / (1 - 0.5)
    assert torch.equal(residual.eval()(x, torch.ones_like), around + 1)


@pytest.mark.parametrize("training", [True, False])
def test_neither_the_stream_nor_the_branch_is_written_over(training: bool) -> None:
    x, branch = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    before = x.clone(), branch.clone()
    PreNorm(nn.Identity(), 0.5).train(training)(x, lambda _: branch)
    assert torch.equal(x, before[0])
    assert torch.equal(branch, before[1])


def test_a_branch_of_half_numbers_joins_a_stream_of_whole_ones() -> None:
    sum_ = PreNorm(nn.Identity(), 0.5)(torch.randn(2, 3, 5), lambda x: x.bfloat16())
    assert sum_.dtype == torch.float32


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_hooks_of_every_kind_are_called_and_see_what_dropout_made(kind: type[PostNorm | PreNorm]) -> None:
    part, x = kind(nn.Identity(), 0.5), torch.full((2, 3, 5), 100.0, requires_grad=True)
    seen: list[Tensor] = []
    part.dropout.register_forward_hook(lambda _, __, out: seen.append(out))
    for module in part.modules():
        module.register_full_backward_hook(lambda _, __, gradients: seen.append(gradients[0]))
    part(x, lambda y: 1 + 0 * y).sum().backward()
    assert set(seen[0].unique().tolist()) == {0.0, 2.0}
    assert len(seen) == 1 + 3  # the part itself, its norm and its dropout


def test_what_another_dropout_returns_is_left_as_it_is() -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = nn.Parameter(torch.ones(2, 3, 5), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.held

    part, x = PreNorm(nn.Identity(), 0.5), torch.randn(2, 3, 5)
    part.dropout = Held()
    assert torch.equal(part(x, lambda y: y), x + 1)
    assert torch.equal(part.dropout.held, torch.ones(2, 3, 5))


def test_a_branch_may_be_one_vector_for_all() -> None:
    assert PreNorm(nn.Identity(), 0.5)(torch.zeros(2, 3, 5), lambda _: torch.ones(5)).shape == (2, 3, 5)
