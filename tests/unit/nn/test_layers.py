"""Layers: their sublayers in order, written out, and who sees whom."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    KeyValueCache,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    Visibility,
)

B, T, S, D, H = 2, 5, 7, 6, 3


def parts(kind: type[nn.Module], number: int) -> tuple[nn.Module, ...]:
    return tuple(kind(nn.LayerNorm(D)) for _ in range(number))


def encoder_layer(kind: type[nn.Module] = PostNorm) -> EncoderLayer:
    torch.manual_seed(0)
    layer = EncoderLayer(
        self_attention=MultiHeadAttention(D, H),
        feed_forward=FeedForward(D, 11, F.relu),
        residuals=parts(kind, 2),  # type: ignore[arg-type]
    )
    shake(layer)
    return layer


def decoder_layer(kind: type[nn.Module] = PostNorm) -> DecoderLayer:
    torch.manual_seed(0)
    layer = DecoderLayer(
        self_attention=MultiHeadAttention(D, H),
        cross_attention=MultiHeadAttention(D, H),
        feed_forward=FeedForward(D, 11, F.relu),
        residuals=parts(kind, 3),  # type: ignore[arg-type]
    )
    shake(layer)
    return layer


def shake(module: nn.Module) -> None:
    """Give every parameter a value of its own, so that two norms cannot change places unseen."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)


def test_post_norm_encoder_layer() -> None:
    layer, x = encoder_layer(PostNorm), torch.randn(B, T, D)
    first, second = layer.self_residual.norm, layer.feed_forward_residual.norm
    expected = first(x + layer.self_attention(x))
    expected = second(expected + layer.feed_forward(expected))
    torch.testing.assert_close(layer(x), expected)


def test_pre_norm_encoder_layer() -> None:
    layer, x = encoder_layer(PreNorm), torch.randn(B, T, D)
    first, second = layer.self_residual.norm, layer.feed_forward_residual.norm
    expected = x + layer.self_attention(first(x))
    expected = expected + layer.feed_forward(second(expected))
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_decoder_layer(kind: type[nn.Module]) -> None:
    layer, x, memory = decoder_layer(kind), torch.randn(B, T, D), torch.randn(B, S, D)
    keys_values = layer.cross_attention.keys_values(memory)
    visible, seen = Visibility(causal=True), Visibility(torch.tensor([S, 3]))

    def joined(residual: nn.Module, x: Tensor, sublayer: nn.Module, *args: object, **named: object) -> Tensor:
        if kind is PostNorm:
            return residual.norm(x + sublayer(x, *args, **named))
        return x + sublayer(residual.norm(x), *args, **named)

    expected = joined(layer.self_residual, x, layer.self_attention, visible)
    expected = joined(layer.cross_residual, expected, layer.cross_attention, seen, memory=keys_values)
    expected = joined(layer.feed_forward_residual, expected, layer.feed_forward)
    torch.testing.assert_close(layer(x, keys_values, visible, seen), expected)


def test_a_decoder_layer_is_not_causal_by_itself() -> None:
    layer, x, memory = decoder_layer(), torch.randn(B, T, D), torch.randn(B, S, D)
    keys_values = layer.cross_attention.keys_values(memory)
    changed = x.clone()
    changed[:, -1] += 1
    for causal in (False, True):
        before, after = (layer(each, keys_values, Visibility(causal=causal)) for each in (x, changed))
        assert torch.equal(before[:, :-1], after[:, :-1]) == causal


def test_padding_of_the_source_is_not_read() -> None:
    layer, x, memory = decoder_layer(), torch.randn(B, T, D), torch.randn(B, S, D)
    changed = memory.clone()
    changed[1, 3:] += 1
    outputs = [
        layer(x, layer.cross_attention.keys_values(each), Visibility(causal=True), Visibility(torch.tensor([S, 3])))
        for each in (memory, changed)
    ]
    torch.testing.assert_close(outputs[0], outputs[1], atol=0, rtol=0)


def test_both_layers_take_a_cache() -> None:
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    encoder, decoder = encoder_layer(), decoder_layer()
    keys_values = decoder.cross_attention.keys_values(memory)
    encoder_cache, decoder_cache = KeyValueCache(), KeyValueCache()
    encoded, decoded = [], []
    for token in x.split(1, dim=1):
        encoded.append(encoder(token, Visibility(causal=True), cache=encoder_cache))
        decoded.append(decoder(token, keys_values, Visibility(causal=True), cache=decoder_cache))
    # sums of a few products in another order
    torch.testing.assert_close(torch.cat(encoded, 1), encoder(x, Visibility(causal=True)), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        torch.cat(decoded, 1), decoder(x, keys_values, Visibility(causal=True)), atol=1e-5, rtol=0
    )
