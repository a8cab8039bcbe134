"""Analytic gradients against finite differences, in float64.

Allowances are those of torch's own module tests: a step of 1e-6, 1e-5 absolute and 1e-3 relative. Empty rows and
dropout-free training mode included.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import regard.nn.attention
from properties.specs import NORMS, POSITIONS, small
from regard.models import build
from regard.nn import MultiHeadAttention, RelativeBias, Visibility, attend
from regard.training.objective import chunked_cross_entropy, smoothed_cross_entropy


def passes(function: Callable[..., Tensor], *inputs: Tensor) -> bool:
    leaves = [x.detach().double().requires_grad_() for x in inputs]
    return torch.autograd.gradcheck(function, leaves, eps=1e-6, atol=1e-5, rtol=1e-3)


def module_passes(module: nn.Module, call: Callable[[nn.Module, Tensor], Tensor], x: Tensor) -> bool:
    """Check the gradients of the input and of all parameters, each of them random."""
    module.double()
    generator = torch.Generator().manual_seed(1)
    names = [name for name, _ in module.named_parameters()]
    values = [torch.randn(p.shape, generator=generator) * 0.5 for p in module.parameters()]

    def function(x: Tensor, *parameters: Tensor) -> Tensor:
        weights = {f"module.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return functional_call(Called(module, call), weights, (x,))

    return passes(function, x, *values)


class Called(nn.Module):
    """A module behind the way in which a test calls it."""

    def __init__(self, module: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.module, x)


def randn(*size: int, seed: int = 2) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


MASK = torch.tensor([[True, True, False, True, False], [False] * 5, [True] * 5])
"""Three queries, five keys; the second query sees nothing."""


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
@pytest.mark.parametrize("case", ["everything", "mask", "bias", "bias and mask"])
def test_attention_sum(case: str, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "SHORT", short)
    mask = MASK[None, None] if "mask" in case else None

    def function(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return attend(q, k, v, mask, bias=bias if "bias" in case else None)

    q, k, v = randn(1, 2, 3, 2), randn(1, 2, 5, 2, seed=3), randn(1, 2, 5, 2, seed=4)
    assert passes(function, q, k, v, randn(1, 2, 3, 5, seed=5))


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_attention(causal: bool, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "SHORT", short)
    attention = MultiHeadAttention(6, 2, positions=RelativeBias(2, num_buckets=4, max_distance=3))
    visible = Visibility(key_lengths=torch.tensor([3, 0]), causal=causal)
    assert module_passes(attention, lambda module, x: module(x, visible), randn(2, 3, 6))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", ["rotary", "relative-bias"])
def test_layers(positions: str, norm: str) -> None:
    spec = small(positions, norm, d_model=4, num_heads=2, d_ff=3, activation="gelu")  # relu has corners
    model = build(spec)
    lengths = Visibility(key_lengths=torch.tensor([3, 0]))
    assert module_passes(model.encoder.layers[0], lambda module, x: module(x, lengths), randn(2, 3, 4))

    memory = randn(2, 3, 4, seed=3).double()

    def decode(module: nn.Module, x: Tensor) -> Tensor:
        return module(x, module.cross_attention.keys_values(memory), Visibility(causal=True), lengths)

    assert module_passes(model.decoder.layers[0], decode, randn(2, 3, 4))


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_parameter_of_a_model_learns(positions: str) -> None:
    model = build(small(positions))
    source, target = torch.arange(4, 10).view(2, 3), torch.arange(4, 12).view(2, 4)
    (model(source, target) ** 2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and (parameter.grad != 0).any(), name
    for table in (model.source_embedding.vectors.table, model.target_embedding.vectors.table):
        assert (table.weight.grad[0] == 0).all()


LABELS = torch.tensor([4, 0, 1, 6, 0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_smoothed_loss(smoothing: float) -> None:
    assert passes(lambda logits: smoothed_cross_entropy(logits, LABELS, smoothing), randn(5, 7))
    labels = LABELS[LABELS != 0]

    def chunked(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return chunked_cross_entropy(hidden, weight, bias, labels, smoothing, chunk_rows=2)

    assert passes(chunked, randn(3, 2), randn(7, 2, seed=3), randn(7, seed=4))
