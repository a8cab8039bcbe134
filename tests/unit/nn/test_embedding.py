"""Embeddings: rows of a table or mapped frames, scaled or not, then positions, norm and dropout."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.errors import ShapeError
from regard.nn import Embedding, FrameMap, LeadingToken, Positions, Sinusoidal, TokenTable

B, L, D, V = 2, 5, 7, 11


class TestTokenTable:
    def test_looks_rows_up_and_scales_them(self) -> None:
        tokens = TokenTable(V, D)
        ids = torch.tensor([[2, 4, 4]])
        torch.testing.assert_close(tokens(ids), tokens.table.weight[[2, 4, 4]][None] * math.sqrt(D))

    def test_unscaled(self) -> None:
        tokens = TokenTable(V, D, scaled=False)
        assert torch.equal(tokens(torch.tensor([[2, 4]])), tokens.table.weight[[2, 4]][None])

    def test_the_row_of_padding_is_zero_and_gets_no_gradient(self) -> None:
        tokens = TokenTable(V, D)
        vectors = tokens(torch.tensor([[3, 0, 0]]))
        assert vectors[0, 1:].eq(0).all()
        (vectors + 1).square().sum().backward()
        assert tokens.table.weight.grad is not None
        assert tokens.table.weight.grad[0].eq(0).all()
        assert tokens.table.weight.grad[3].ne(0).all()

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize("shape", [(5,), (2, 5, 1)])
    def test_other_axes_are_refused_in_words(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ShapeError, match=r"token ids must be \[B, L\], but have shape \["):
            TokenTable(V, D)(torch.ones(shape, dtype=torch.long))


class TestFrameMap:
    @pytest.mark.parametrize("scaled", [False, True])
    def test_is_linear_and_scaled_if_asked(self, scaled: bool) -> None:
        frames = FrameMap(3, D, scaled=scaled)
        x = torch.randn(B, L, 3)
        expected = (x @ frames.map.weight.T + frames.map.bias) * (math.sqrt(D) if scaled else 1)
        torch.testing.assert_close(frames(x), expected)

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize("shape", [(2, 5), (2, 5, 4), (2, 5, 3, 1)])
    def test_other_axes_are_refused_in_words(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ShapeError, match=r"frames must be \[B, L, 3\], but have shape \["):
            FrameMap(3, D)(torch.zeros(shape))


class TestLeadingToken:
    def test_stands_in_front_of_every_row(self) -> None:
        front = LeadingToken(FrameMap(3, D), D)
        x = torch.randn(B, L, 3)
        out = front(x)
        assert out.shape == (B, L + 1, D)
        assert torch.equal(out[:, 0], front.token.expand(B, D))
        assert torch.equal(out[:, 1:], front.vectors(x))

    def test_is_trained(self) -> None:
        front = LeadingToken(FrameMap(3, D), D)
        front(torch.randn(B, L, 3)).sum().backward()
        assert front.token.grad is not None
        assert front.token.grad.tolist() == [B] * D


class TestEmbedding:
    def test_vectors_then_positions_then_norm(self) -> None:
        tokens, positions, norm = TokenTable(V, D), Sinusoidal(D, 17), nn.LayerNorm(D)
        ids = torch.randint(1, V, (B, L))
        expected = norm(positions.embed(tokens(ids), 3))
        assert torch.equal(Embedding(tokens, positions, norm=norm)(ids, 3), expected)

    def test_nothing_but_vectors(self) -> None:
        tokens = TokenTable(V, D)
        ids = torch.randint(1, V, (B, L))
        assert torch.equal(Embedding(tokens, Positions())(ids), tokens(ids))

    def test_dropout_falls_on_the_sum_and_only_while_training(self) -> None:
        embedding = Embedding(FrameMap(3, D), Sinusoidal(D, 17), dropout=0.5)
        x = torch.randn(B, L, 3)
        torch.manual_seed(0)
        dropped = embedding(x)
        whole = embedding.eval()(x)
        kept = dropped != 0
        assert 0 < kept.float().mean() < 1
        torch.testing.assert_close(dropped[kept], 2 * whole[kept])
