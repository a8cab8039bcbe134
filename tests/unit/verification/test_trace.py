from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.verification.inputs import Inputs
from regard.verification.taps import Taps, dropout_kept_still
from regard.verification.trace import traced

B, H, Q, S, K = 3, 2, 5, 7, 11


def operands() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(B, H, n, K, generator=generator, dtype=torch.float64) for n in (Q, S, S))
    return q, k, v, torch.rand(B, 1, Q, S, generator=generator) > 0.3


def by_products(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / math.sqrt(K)).masked_fill(~mask, -math.inf).softmax(-1) @ v


def by_einsum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = torch.einsum("bhqk,bhsk->bhqs", q / math.sqrt(K), k).masked_fill(~mask, -math.inf)
    return torch.einsum("bhqs,bhsk->bhqk", F.softmax(scores, dim=3), v)


def in_place(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = torch.matmul(q, k.mT)
    scores /= math.sqrt(K)
    scores.masked_fill_(~mask, -math.inf)
    return scores.softmax(-1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("attend", [by_products, by_einsum, in_place, fused])
def test_attention_is_seen_however_it_is_written(attend: object) -> None:
    q, k, v, mask = operands()
    mask[..., 0] = True  # no row is empty

    class Module(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return attend(x, k, v, mask)  # type: ignore[operator]

    with traced(nn.ModuleDict({"inner": Module()})["inner"], B) as trace:
        out = Module()(q)
    (seen,) = trace.attentions
    assert seen.weights.shape == (B, H, Q, S)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(B, H, Q, dtype=torch.float64))
    assert torch.equal(seen.weights > 0, mask.expand(B, H, Q, S))
    torch.testing.assert_close(seen.weights @ v, out)  # the product is of this many terms: default tolerance of float64
    assert seen.context is not None
    torch.testing.assert_close(seen.context, out)
    torch.testing.assert_close(seen.scores.masked_fill(~mask, 0), (q @ k.mT / math.sqrt(K)).masked_fill(~mask, 0))


def test_the_innermost_module_is_named() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 13, batch_first=True), 2, enable_nested_tensor=False)
    with traced(model, B) as trace:
        model.train()(torch.randn(B, Q, 6))
    assert [attention.module for attention in trace.attentions] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert trace.calls[-1].module == ""


def test_taps_add_to_the_embedding_of_the_ids_of_a_side_alone() -> None:
    table, places = nn.Embedding(19, 5), nn.Embedding(8, 5)
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    inputs = Inputs(ids, None, None, None, None)
    with Taps(inputs) as taps:
        out = table(ids) + places(torch.arange(3)) + table.weight[ids] + table(ids.T).transpose(0, 1)
    assert list(taps.added) == ["source"] and taps.tables == {"source": 19}
    (grad,) = torch.autograd.grad(out.sum(), [taps.added["source"]])
    assert torch.equal(grad, torch.full((2, 3, 5), 3.0))  # three look-ups of these ids, and none of places


def test_dropout_kept_still_keeps_everything_and_comes_back() -> None:
    class Drawn(nn.Module):
        """Drops in a way of its own, by a share that it names."""

        def __init__(self) -> None:
            super().__init__()
            self.dropout = 0.4

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (torch.rand(x.shape) >= self.dropout) / (1 - self.dropout)

    x, own = torch.randn(B, H, Q, K), Drawn()
    with dropout_kept_still(own):
        assert torch.equal(own(x), x)
        assert torch.equal(F.dropout(x, 0.4, training=True), x)
        kept = F.scaled_dot_product_attention(x, x, x, dropout_p=0.4)
    torch.testing.assert_close(kept, F.scaled_dot_product_attention(x, x, x))
    assert own.dropout == 0.4
