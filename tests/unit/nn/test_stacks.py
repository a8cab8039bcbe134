"""Stacks: layers in order, each with weights of its own, then a norm if there is one."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import nn
from torch.nn import functional as F

from regard.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    KeyValueCache,
    MultiHeadAttention,
    PostNorm,
    Visibility,
)

B, T, S, D, H, LAYERS = 2, 5, 7, 6, 3, 3


def encoder_layer(index: int = 0) -> EncoderLayer:
    return EncoderLayer(
        self_attention=MultiHeadAttention(D, H),
        feed_forward=FeedForward(D, 11, F.relu),
        residuals=(PostNorm(nn.LayerNorm(D)), PostNorm(nn.LayerNorm(D))),
    )


def decoder_layer(index: int = 0) -> DecoderLayer:
    return DecoderLayer(
        self_attention=MultiHeadAttention(D, H),
        cross_attention=MultiHeadAttention(D, H),
        feed_forward=FeedForward(D, 11, F.relu),
        residuals=(PostNorm(nn.LayerNorm(D)), PostNorm(nn.LayerNorm(D)), PostNorm(nn.LayerNorm(D))),
    )


def test_layers_are_made_in_order() -> None:
    indices: list[int] = []

    def make(index: int) -> EncoderLayer:
        indices.append(index)
        return encoder_layer()

    assert len(Encoder(make, LAYERS).layers) == LAYERS
    assert indices == [0, 1, 2]


def test_layers_share_nothing_and_start_unequal() -> None:
    for stack in (Encoder(encoder_layer, LAYERS), Decoder(decoder_layer, LAYERS)):
        parameters = [list(layer.parameters()) for layer in stack.layers]
        storages = [parameter.data_ptr() for layer in parameters for parameter in layer]
        assert len(set(storages)) == len(storages)
        for one, other in combinations(parameters, 2):
            matrices = [pair for pair in zip(one, other, strict=True) if pair[0].ndim > 1]
            assert len(matrices) >= 4
            assert not any(torch.equal(*pair) for pair in matrices)


def test_encoder_is_its_layers_one_after_the_other() -> None:
    norm = nn.LayerNorm(D)
    stack, x = Encoder(encoder_layer, LAYERS, final_norm=norm), torch.randn(B, S, D)
    visible = Visibility(torch.tensor([S, 3]))
    with torch.no_grad():
        norm.weight.mul_(2)
    expected = x
    for layer in stack.layers:
        expected = layer(expected, visible)
    assert torch.equal(stack(x, visible), norm(expected))


def test_without_a_final_norm_nothing_follows_the_last_layer() -> None:
    stack, x = Encoder(encoder_layer, 1), torch.randn(B, S, D)
    assert torch.equal(stack(x), stack.layers[0](x))
    assert list(stack.final_norm.parameters()) == []


def test_decoder_is_its_layers_one_after_the_other() -> None:
    norm = nn.LayerNorm(D)
    stack, x, memory = Decoder(decoder_layer, LAYERS, final_norm=norm), torch.randn(B, T, D), torch.randn(B, S, D)
    visible, seen = Visibility(causal=True), Visibility(torch.tensor([S, 3]))
    with torch.no_grad():
        norm.weight.mul_(2)
    expected = x
    for layer in stack.layers:
        expected = layer(expected, layer.cross_attention.keys_values(memory), visible, seen)
    assert torch.equal(stack(x, stack.keys_values(memory), visible, seen), norm(expected))


def test_each_decoder_layer_has_a_cache_of_its_own() -> None:
    stack, x, memory = Decoder(decoder_layer, LAYERS), torch.randn(B, T, D), torch.randn(B, S, D)
    keys_values, caches = stack.keys_values(memory), [KeyValueCache() for _ in range(LAYERS)]
    steps = [stack(token, keys_values, Visibility(causal=True), caches=caches) for token in x.split(1, dim=1)]
    # sums of a few products in another order, through three layers
    torch.testing.assert_close(
        torch.cat(steps, dim=1), stack(x, keys_values, Visibility(causal=True)), atol=1e-5, rtol=0
    )
    assert [cache.length for cache in caches] == [T] * LAYERS
