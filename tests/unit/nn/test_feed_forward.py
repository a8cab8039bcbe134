"""The feed-forward network: by hand, by its formula, and each position alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.nn import FeedForward, GatedFeedForward
from regard.nn.feed_forward import Activation

B, L, D, INNER = 2, 5, 7, 11

KINDS = [FeedForward, GatedFeedForward]


def test_by_hand() -> None:
    layer = FeedForward(2, 3, F.relu)
    with torch.no_grad():
        layer.inner.weight[:] = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
        layer.inner.bias[:] = torch.tensor([0.0, -1.0, 0.0])
        layer.outer.weight[:] = torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
        layer.outer.bias[:] = torch.tensor([0.5, 0.0])
    # (2, 3) -> inner (2, 2, -5) -> relu (2, 2, 0) -> (2 + 4 + 0.5, 2)
    assert layer(torch.tensor([[[2.0, 3.0]]])).tolist() == [[[6.5, 2.0]]]


@pytest.mark.parametrize("activation", [F.relu, F.gelu, F.silu])
def test_plain_formula(activation: Activation) -> None:
    layer, x = FeedForward(D, INNER, activation), torch.randn(B, L, D)
    assert torch.equal(layer(x), layer.outer(activation(layer.inner(x))))


@pytest.mark.parametrize("activation", [F.relu, F.gelu, F.silu])
def test_gated_formula(activation: Activation) -> None:
    layer, x = GatedFeedForward(D, INNER, activation), torch.randn(B, L, D)
    gate = F.linear(x, layer.gate_inner.weight[:INNER], layer.gate_inner.bias[:INNER])
    inner = F.linear(x, layer.gate_inner.weight[INNER:], layer.gate_inner.bias[INNER:])
    torch.testing.assert_close(layer(x), layer.outer(activation(gate) * inner))


@pytest.mark.parametrize("kind", KINDS)
def test_each_position_alone(kind: type[nn.Module]) -> None:
    layer, x = kind(D, INNER, F.gelu), torch.randn(B, L, D)
    changed = x.clone()
    changed[:, 3] += 1
    before, after = layer(x), layer(changed)
    others = [0, 1, 2, 4]
    torch.testing.assert_close(before[:, others], after[:, others], atol=0, rtol=0)
    assert not torch.allclose(before[:, 3], after[:, 3])


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_only_while_training(kind: type[nn.Module]) -> None:
    layer, x = kind(D, INNER, F.gelu, dropout=0.5), torch.randn(B, L, D)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("kind", KINDS)
def test_without_bias(kind: type[nn.Module]) -> None:
    layer = kind(D, INNER, F.relu, bias=False)
    assert all(name.endswith("weight") for name, _ in layer.named_parameters())
    assert layer(torch.zeros(B, L, D)).eq(0).all()


def test_gate_and_inner_map_count_as_two_maps() -> None:
    plain, gated = (sum(p.numel() for p in kind(D, INNER, F.relu).parameters()) for kind in KINDS)
    assert plain == D * INNER + INNER + INNER * D + D
    assert gated == plain + D * INNER + INNER
