"""The decoder's step as one straight run over its weights, for searches that nobody watches.

``Transformer.step`` goes through some twenty modules a layer, and torch looks each up, asks it for hooks and calls it:
with few rows that takes as long as the products. :func:`bind` takes the same weights out of their modules, and a test
holds it equal to ``Transformer.step``, its oracle. A Translator asks for it at each search, and gets the model itself
where anyone watches or a part is not known. A position encoding needs nothing here: its hooks are called as everywhere.
The encoder, which runs once per source, stays in its modules; only its products are packed.

Axes: N rows being decoded, M sources, W rows that read one source, H heads, S source, T target so far, D = d_model,
K = D / H.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module

from regard.models.packed import PackedWeights
from regard.models.seq2seq import DecoderState, Transformer
from regard.models.starting import start_by_length
from regard.nn import (
    Decoder,
    DecoderLayer,
    Embedding,
    Encoder,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    KeysValues,
    KeyValueCache,
    MultiHeadAttention,
    NoResidual,
    Positions,
    PostNorm,
    PreNorm,
    TokenTable,
    attend,
)
from regard.nn.dropout import Dropout
from regard.protocols import Step, StepDecoder

Map = Callable[[Tensor], Tensor]
Join = Callable[[Tensor, Tensor], Tensor]
BindLinear = Callable[[str, Tensor, Tensor | None], Map]
Layer = Callable[[Tensor, KeysValues, Tensor | None, KeyValueCache], Tensor]

_KNOWN = frozenset(
    {
        Decoder,
        DecoderLayer,
        MultiHeadAttention,
        FeedForward,
        GatedFeedForward,
        PostNorm,
        PreNorm,
        NoResidual,
        Dropout,
        nn.Linear,
        nn.LayerNorm,
        nn.RMSNorm,
        nn.Identity,
        nn.ModuleList,
    }
)
"""What a decoder is made of, besides positions; a subclass may do anything, so it is not known."""

_MANY = 64
"""Tokens from which the encoder's matrices are packed: for one sentence the look at them takes what it saves."""

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))

_KNOWN_OF_ENCODERS = _KNOWN | {Encoder, EncoderLayer, Embedding, TokenTable, nn.Embedding}


def bind(model: Transformer, packed: PackedWeights | None = None) -> StepDecoder:
    """Return a decoder that gives what ``model`` gives, and sooner if its parts are known and only compute.

    It is for one search: a part that is exchanged, watched, moved or given other weights afterwards goes unnoticed, or
    half noticed.

    Args:
        model: in evaluation mode.
        packed: where its wide matrices are kept from one search to the next, packed; left out, none is packed.
    """
    # a torch that calls them otherwise counts as watched
    watched = any(getattr(torch_module, f"_global_forward_{kind}", True) for kind in ("hooks", "pre_hooks"))
    known = type(model) is Transformer and not _patched(model) and all(map(_only_computes, model.decoder.modules()))
    return _Bound(model, packed) if known and not watched else model


def _only_computes(part: nn.Module, known: frozenset[type[nn.Module]] = _KNOWN) -> bool:
    """Tell whether to call ``part`` is to run a forward that is known, for evaluation, and nothing else."""
    if type(part) not in known and not isinstance(part, Positions):
        return False
    watched = (
        part._forward_hooks or part._forward_pre_hooks or (isinstance(part, MultiHeadAttention) and part._listeners)
    )
    placed = type(part) is DecoderLayer and type(getattr(part.cross_attention, "positions", None)) is not Positions
    return not (part.training or watched or placed or _patched(part))


def _patched(part: nn.Module) -> bool:
    """Tell whether a method of ``part`` alone stands before that of its class."""
    return any(callable(getattr(type(part), name, None)) for name in vars(part).keys() - _OF_EVERY_MODULE)


@dataclass(frozen=True)
class _State:
    """The model's own state, and the padding of its sources as numbers, made once instead of in every layer.

    Attributes:
        inner: the model's; all rows have read as many tokens.
        padding: added to the scores, 0 for a token and -inf for padding; None without any.
    """

    inner: DecoderState
    padding: Float[Tensor, "M 1 1 S"] | None

    @classmethod
    def of(cls, inner: DecoderState) -> _State:
        keys = inner.memory[0].keys
        visible, _ = inner.source_visible.resolve(1, keys.size(2), keys.device)
        if visible is None:
            return cls(inner, None)
        # A source without a token would be NaN: it is seen instead, and what is seen is zero.
        empty = ~visible.any(dim=-1, keepdim=True)
        if bool(empty.any()):
            memory = [replace(layer, values=layer.values.masked_fill(empty, 0.0)) for layer in inner.memory]
            inner = replace(inner, memory=memory)
        padding = torch.zeros_like(visible, dtype=keys.dtype).masked_fill_(~(visible | empty), -math.inf)
        return cls(inner, padding)


class _Bound:
    """A model whose decoder layers are bound to their weights."""

    def __init__(self, model: Transformer, packed: PackedWeights | None) -> None:
        self._model, self._packed = model, packed
        bind_linear: BindLinear = packed.linear if packed is not None else _plain
        self._layers = [
            _layer(cast(DecoderLayer, layer), partial(_named, bind_linear, f"decoder.{number}"))
            for number, layer in enumerate(model.decoder.layers)
        ]
        self._final_norm = _norm(model.decoder.final_norm)
        output = model.output
        plain = type(output) is nn.Linear and _only_computes(output)
        self._output: Map = bind_linear("output", output.weight, output.bias) if plain else output

    def start(self, source: Int[Tensor, "N S"], source_lengths: Int[Tensor, " N"] | None = None) -> _State:
        if self._reader is None:
            return _State.of(self._model.start(source, source_lengths))
        return _State.of(start_by_length(self._reader, source, source_lengths))

    @cached_property
    def _reader(self) -> Transformer | None:
        """The model as it reads sources, with packed matrices; None if it has parts that may do more than compute."""
        model, packed = self._model, self._packed
        encoding = (*model.source_embedding.modules(), *model.encoder.modules())
        if not all(_only_computes(part, _KNOWN_OF_ENCODERS) for part in encoding):
            return None
        if packed is None:
            return model
        twin = copy(model)
        twin._modules = {**model._modules, "encoder": packed.within(model.encoder, "encoder", least_rows=_MANY)}
        return twin

    def step(self, tokens: Int[Tensor, " N"], state: _State) -> Step:
        inner = state.inner
        x_ND = self._model.target_embedding(tokens[:, None], inner.length)[:, 0]
        for layer, memory, cache in zip(self._layers, inner.memory, inner.caches, strict=True):
            x_ND = layer(x_ND, memory, state.padding, cache)
        return Step(self._output(self._final_norm(x_ND)), state)

    def reorder(self, state: _State, rows: Int[Tensor, " N"]) -> _State:
        inner = state.inner.reorder(rows)
        same_sources = inner.source_visible is state.inner.source_visible
        return replace(state, inner=inner) if same_sources else _State.of(inner)


def _plain(name: str, weight: Tensor, bias: Tensor | None) -> Map:
    return lambda x_ND: F.linear(x_ND, weight, bias)


def _named(bind_linear: BindLinear, prefix: str, name: str, weight: Tensor, bias: Tensor | None) -> Map:
    return bind_linear(f"{prefix}.{name}", weight, bias)


def _layer(layer: DecoderLayer, bind_linear: BindLinear) -> Layer:
    look_back = _self_attention(layer.self_attention, bind_linear)
    look_up = _cross_attention(layer.cross_attention, bind_linear)
    feed_forward = _feed_forward(layer.feed_forward, bind_linear)
    enter_self, leave_self = _residual(layer.self_residual)
    enter_cross, leave_cross = _residual(layer.cross_residual)
    enter_feed_forward, leave_feed_forward = _residual(layer.feed_forward_residual)

    def run(x_ND: Tensor, memory: KeysValues, padding: Tensor | None, cache: KeyValueCache) -> Tensor:
        x_ND = leave_self(x_ND, look_back(enter_self(x_ND), cache))
        x_ND = leave_cross(x_ND, look_up(enter_cross(x_ND), memory, padding))
        return leave_feed_forward(x_ND, feed_forward(enter_feed_forward(x_ND)))

    return run


def _self_attention(
    attention: MultiHeadAttention, bind_linear: BindLinear
) -> Callable[[Tensor, KeyValueCache], Tensor]:
    num_heads, scale, positions = attention.num_heads, attention.scale, attention.positions
    head_width = attention.out.out_features // num_heads
    qkv = bind_linear("self.qkv", attention.qkv.weight, attention.qkv.bias)
    out = bind_linear("self.out", attention.out.weight, attention.out.bias)

    def run(x_ND: Tensor, cache: KeyValueCache) -> Tensor:
        offset = cache.length
        q, k, v = qkv(x_ND).view(x_ND.size(0), 3, num_heads, 1, head_width).unbind(1)
        q, k = positions.rotate(q, offset), positions.rotate(k, offset)  # [N, H, 1, K]
        k, v = cache.append(k, v)  # [N, H, T, K]
        seen = attend(q, k, v, scale=scale, bias=positions.bias(1, k.size(2), offset))  # [N, H, 1, K]
        return out(seen.reshape(x_ND.shape))

    return run


def _cross_attention(
    attention: MultiHeadAttention, bind_linear: BindLinear
) -> Callable[[Tensor, KeysValues, Tensor | None], Tensor]:
    num_heads, scale = attention.num_heads, attention.scale
    width = attention.out.out_features
    head_width = width // num_heads
    query_bias = None if attention.qkv.bias is None else attention.qkv.bias[:width]
    query = bind_linear("cross.query", attention.qkv.weight[:width], query_bias)
    out = bind_linear("cross.out", attention.out.weight, attention.out.bias)

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


def _feed_forward(part: nn.Module, bind_linear: BindLinear) -> Map:
    if type(part) is not FeedForward:
        return lambda x_ND: cast(Tensor, part(x_ND[:, None]))[:, 0]
    activation = part.activation
    inner = bind_linear("inner", part.inner.weight, part.inner.bias)
    outer = bind_linear("outer", part.outer.weight, part.outer.bias)
    return lambda x_ND: outer(activation(inner(x_ND)))


def _residual(part: nn.Module) -> tuple[Map, Join]:
    """Return what a sublayer reads of the stream, and how what it makes joins the stream."""
    norm = _norm(cast(nn.Module, part.norm))
    if type(part) is PostNorm:
        return lambda x_ND: x_ND, lambda x_ND, new_ND: norm(x_ND + new_ND)
    if type(part) is PreNorm:
        return norm, torch.add
    return norm, lambda x_ND, new_ND: new_ND


def _norm(norm: nn.Module) -> Map:
    if type(norm) is not nn.LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x_ND: torch.layer_norm(x_ND, shape, weight, bias, eps)
