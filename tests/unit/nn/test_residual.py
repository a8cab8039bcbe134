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
