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
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.bound_layer import BindLinear, bind_layer, bind_norm, plain_linear
from regard.models.packed import PackedWeights
from regard.models.pieces import Map
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
    MultiHeadAttention,
    NoResidual,
    Positions,
    PostNorm,
    PreNorm,
    TokenTable,
)
from regard.nn.dropout import Dropout
from regard.nn.watched import is_watched
from regard.protocols import Step, StepDecoder

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
    known = type(model) is Transformer and not _patched(model) and all(map(_only_computes, model.decoder.modules()))
    return _Bound(model, packed) if known else model


def _only_computes(part: nn.Module, known: frozenset[type[nn.Module]] = _KNOWN) -> bool:
    """Tell whether to call ``part`` is to run a forward that is known, for evaluation, and nothing else."""
    if type(part) not in known and not isinstance(part, Positions):
        return False
    watched = is_watched(part) or (isinstance(part, MultiHeadAttention) and part._listeners)
    # bound cross-attention asks no positions: what it reads has none, unless somebody gave it some
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
        bind_linear: BindLinear = packed.linear if packed is not None else plain_linear
        self._layers = [
            bind_layer(cast(DecoderLayer, layer), bind_linear, f"decoder.{number}")
            for number, layer in enumerate(model.decoder.layers)
        ]
        self._final_norm = bind_norm(model.decoder.final_norm)
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
        # another object says that sources fell away: padding is made of those that stay
        same_sources = inner.source_visible is state.inner.source_visible
        return replace(state, inner=inner) if same_sources else _State.of(inner)
