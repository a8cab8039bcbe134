"""A decoder layer as a straight run over its weights: what :mod:`regard.models.bound` is made of.

Each function takes the weights of one known part out of its modules, and returns a function that uses them.

Axes: N rows being decoded, M sources, W rows that read one source, H heads, T target so far, D = d_model, K = D / H.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.pieces import Map
from regard.nn import (
    DecoderLayer,
    FeedForward,
    KeysValues,
    KeyValueCache,
    MultiHeadAttention,
    NoResidual,
    PostNorm,
    attend,
)

Join = Callable[[Tensor, Tensor], Tensor]
BindLinear = Callable[[str, Tensor, Tensor | None], Map]
Layer = Callable[[Tensor, KeysValues, Tensor | None, KeyValueCache], Tensor]


def plain_linear(name: str, weight: Tensor, bias: Tensor | None) -> Map:
    """Return ``F.linear(·, weight, bias)``."""
    return lambda x_ND: F.linear(x_ND, weight, bias)


def bind_layer(layer: DecoderLayer, bind_linear: BindLinear, name: str) -> Layer:
    """Return the step of a decoder layer of known parts.

    Args:
        layer: in evaluation mode.
        bind_linear: makes a map of the name of a matrix, the matrix and the bias.
        name: of the layer in the model.
    """
    look_back = _self_attention(layer.self_attention, bind_linear, name)
    look_up = _cross_attention(layer.cross_attention, bind_linear, name)
    feed_forward = _feed_forward(layer.feed_forward, bind_linear, name)
    enter_self, leave_self = _residual(layer.self_residual)
    enter_cross, leave_cross = _residual(layer.cross_residual)
    enter_feed_forward, leave_feed_forward = _residual(layer.feed_forward_residual)

    def run(x_ND: Tensor, memory: KeysValues, padding: Tensor | None, cache: KeyValueCache) -> Tensor:
        x_ND = leave_self(x_ND, look_back(enter_self(x_ND), cache))
        x_ND = leave_cross(x_ND, look_up(enter_cross(x_ND), memory, padding))
        return leave_feed_forward(x_ND, feed_forward(enter_feed_forward(x_ND)))

    return run


def _self_attention(
    attention: MultiHeadAttention, bind_linear: BindLinear, name: str
) -> Callable[[Tensor, KeyValueCache], Tensor]:
    num_heads, scale, positions = attention.num_heads, attention.scale, attention.positions
    head_width = attention.out.out_features // num_heads
    qkv = bind_linear(f"{name}.self.qkv", attention.qkv.weight, attention.qkv.bias)
    out = bind_linear(f"{name}.self.out", attention.out.weight, attention.out.bias)

    def run(x_ND: Tensor, cache: KeyValueCache) -> Tensor:
        offset = cache.length
        q, k, v = qkv(x_ND).view(x_ND.size(0), 3, num_heads, 1, head_width).unbind(1)
        q, k = positions.rotate(q, offset), positions.rotate(k, offset)  # [N, H, 1, K]
        k, v = cache.append(k, v)  # [N, H, T, K]
        seen = attend(q, k, v, scale=scale, bias=positions.bias(1, k.size(2), offset))  # [N, H, 1, K]
        return out(seen.reshape(x_ND.shape))

    return run


def _cross_attention(
    attention: MultiHeadAttention, bind_linear: BindLinear, name: str
) -> Callable[[Tensor, KeysValues, Tensor | None], Tensor]:
    num_heads, scale = attention.num_heads, attention.scale
    width = attention.out.out_features
    head_width = width // num_heads
    query_bias = None if attention.qkv.bias is None else attention.qkv.bias[:width]
    query = bind_linear(f"{name}.cross.query", attention.qkv.weight[:width], query_bias)
    out = bind_linear(f"{name}.cross.out", attention.out.weight, attention.out.bias)

    def run(x_ND: Tensor, memory: KeysValues, padding: Tensor | None) -> Tensor:
        readers = memory.readers
        queries = query(x_ND)[:, None]  # [N, 1, D]
        grid = readers.group(queries) if readers else queries  # [M, W, D]
        q = grid.view(grid.size(0), grid.size(1), num_heads, head_width).transpose(1, 2)  # [M, H, W, K]
        # the fused kernel for several queries too: without gradients it is the quicker one, however few the keys
        seen = F.scaled_dot_product_attention(q, memory.keys, memory.values, attn_mask=padding, scale=scale)
        seen = seen.transpose(1, 2)  # [M, W, H, K]
        merged = readers.ungroup(seen.reshape(grid.shape)) if readers else seen
        return out(merged.reshape(x_ND.shape))

    return run


def _feed_forward(part: nn.Module, bind_linear: BindLinear, name: str) -> Map:
    if type(part) is not FeedForward:
        return lambda x_ND: cast(Tensor, part(x_ND[:, None]))[:, 0]
    activation = part.activation
    inner = bind_linear(f"{name}.inner", part.inner.weight, part.inner.bias)
    outer = bind_linear(f"{name}.outer", part.outer.weight, part.outer.bias)
    return lambda x_ND: outer(activation(inner(x_ND)))


def _residual(part: nn.Module) -> tuple[Map, Join]:
    """Return what a sublayer reads of the stream, and how what it makes joins the stream."""
    norm = bind_norm(cast(nn.Module, part.norm))
    if type(part) is PostNorm:
        return lambda x_ND: x_ND, lambda x_ND, new_ND: norm(x_ND + new_ND)
    if type(part) is NoResidual:
        return norm, lambda x_ND, new_ND: new_ND
    return norm, torch.add


def bind_norm(norm: nn.Module) -> Map:
    """Return what ``norm`` computes."""
    if type(norm) is not nn.LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x_ND: torch.layer_norm(x_ND, shape, weight, bias, eps)
