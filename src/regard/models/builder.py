"""From a spec to modules: words become objects here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import InputError
from regard.models import specs
from regard.models.classifier import SequenceClassifier
from regard.models.seq2seq import Transformer
from regard.models.specs import ClassifierSpec, TransformerSpec, preset
from regard.nn import (
    AttentionReadout,
    Convolutions,
    Decoder,
    DecoderLayer,
    Embedding,
    Encoder,
    EncoderLayer,
    FeedForward,
    FirstReadout,
    FrameMap,
    GatedFeedForward,
    LastReadout,
    LeadingToken,
    Learned,
    MeanReadout,
    MultiHeadAttention,
    NoResidual,
    Positions,
    PostNorm,
    PreNorm,
    RelativeBias,
    Rotary,
    Sinusoidal,
    TokenTable,
    Windows,
    num_windows,
)
from regard.protocols import PAD

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}

RESIDUALS: Final[Mapping[str, Callable[[nn.Module, float], nn.Module]]] = {
    "post": PostNorm,
    "pre": PreNorm,
    "none": NoResidual,
}


def build(
    spec: TransformerSpec | str, *, source_vocab: int | None = None, target_vocab: int | None = None
) -> Transformer:
    """Return a freshly initialised model.

    Args:
        spec: What to build, or the name of a preset, which needs the two vocabulary sizes.
        source_vocab: Source vocabulary size, with a preset.
        target_vocab: Target vocabulary size, with a preset; left out, that of the source.

    Weights come from torch's global generator: call ``torch.manual_seed`` first for the same model again.
    """
    if isinstance(spec, str):
        if source_vocab is None:
            raise InputError(f"build({spec!r}) needs `source_vocab`, and `target_vocab` where it differs")
        spec = preset(spec, source_vocab=source_vocab, target_vocab=target_vocab or source_vocab)
    elif source_vocab is not None or target_vocab is not None:
        raise InputError("the vocabulary sizes are part of the spec; pass them with a preset's name only")

    source = _Side(spec, spec.max_len, bidirectional=True)
    target = _Side(spec, spec.max_len, bidirectional=False, twin=source)
    model = Transformer(
        spec=spec,
        source_embedding=source.embedding(_token_table(spec, spec.source_vocab)),
        target_embedding=target.embedding(_token_table(spec, spec.target_vocab)),
        encoder=Encoder(
            source.encoder_layer,
            spec.encoder_layers,
            final_norm=_norm(spec) if spec.encoder_final_norm else None,
        ),
        decoder=Decoder(
            target.decoder_layer,
            spec.decoder_layers,
            final_norm=_norm(spec) if spec.decoder_final_norm else None,
        ),
        output=nn.Linear(spec.d_model, spec.target_vocab, bias=spec.output_bias),
    )
    initialise(model)
    tie(model)
    return model


def build_classifier(spec: ClassifierSpec) -> SequenceClassifier:
    """Return a freshly initialised classifier; weights come from torch's global generator."""
    fronts: list[nn.Module] = []
    width, places = spec.num_features, spec.max_len
    if spec.convolutions:
        fronts.append(Convolutions(width, spec.d_model, layers=spec.convolutions, kernel=spec.kernel))
        width = spec.d_model
    if (spec.window, spec.stride) != (1, 1):
        fronts.append(Windows(spec.window, spec.stride))
        width, places = width * spec.window, num_windows(places, spec.window, spec.stride)
    vectors: nn.Module = FrameMap(width, spec.d_model, scaled=spec.scale_embeddings)
    if spec.readout == "cls":
        vectors, places = LeadingToken(vectors, spec.d_model), places + 1
    side = _Side(spec, places, bidirectional=True)
    model = SequenceClassifier(
        spec=spec,
        fronts=fronts,
        embedding=side.embedding(vectors),
        encoder=Encoder(side.encoder_layer, spec.layers, final_norm=_norm(spec) if spec.final_norm else None),
        readout=_readout(spec),
        output=nn.Linear(spec.d_model, spec.num_classes),
    )
    _initialise_maps(model)
    return model


class _Side:
    """What the layers of one stack share: the position object of that side.

    Tables that nobody trains are copied from the ``twin``: those of a million places take seconds to compute.
    """

    def __init__(
        self,
        spec: TransformerSpec | ClassifierSpec,
        max_len: int,
        *,
        bidirectional: bool,
        twin: _Side | None = None,
    ) -> None:
        self.spec = spec
        self.added: Positions = Positions()
        self.in_attention: Positions | None = None
        match spec.positions:
            case specs.Sinusoidal(layout=layout):
                self.added = deepcopy(twin.added) if twin else Sinusoidal(spec.d_model, max_len, layout=layout)
            case specs.Learned():
                self.added = Learned(spec.d_model, max_len)
            case specs.Rotary(base=base, layout=layout):
                width = spec.d_model // spec.num_heads
                made = Rotary(width, max_len, base=base, layout=layout) if twin is None else deepcopy(twin.in_attention)
                self.in_attention = made
            case specs.RelativeBias(num_buckets=buckets, max_distance=distance):
                self.in_attention = RelativeBias(
                    spec.num_heads, num_buckets=buckets, max_distance=distance, bidirectional=bidirectional
                )
            case specs.NoPositions():
                pass

    def embedding(self, vectors: nn.Module) -> Embedding:
        spec = self.spec
        return Embedding(
            vectors,
            self.added,
            norm=_norm(spec) if spec.embedding_norm else None,
            dropout=spec.dropout.embedding,
        )

    def encoder_layer(self, index: int) -> EncoderLayer:
        return EncoderLayer(
            self_attention=_attention(self.spec, self.in_attention),
            feed_forward=self._feed_forward(),
            residuals=(self._residual(), self._residual()),
        )

    def decoder_layer(self, index: int) -> DecoderLayer:
        return DecoderLayer(
            self_attention=_attention(self.spec, self.in_attention),
            cross_attention=_attention(self.spec, None),
            feed_forward=self._feed_forward(),
            residuals=(self._residual(), self._residual(), self._residual()),
        )

    def _feed_forward(self) -> nn.Module:
        spec = self.spec
        kind = GatedFeedForward if spec.gated else FeedForward
        return kind(
            spec.d_model, spec.d_ff, ACTIVATIONS[spec.activation], dropout=spec.dropout.feed_forward, bias=spec.bias
        )

    def _residual(self) -> nn.Module:
        return RESIDUALS[self.spec.residual](_norm(self.spec), self.spec.dropout.residual)


def _token_table(spec: TransformerSpec, num_tokens: int) -> TokenTable:
    return TokenTable(num_tokens, spec.d_model, scaled=spec.scale_embeddings)


def _attention(spec: TransformerSpec | ClassifierSpec, positions: Positions | None) -> MultiHeadAttention:
    return MultiHeadAttention(
        spec.d_model,
        spec.num_heads,
        dropout=spec.dropout.attention,
        bias=spec.bias,
        scale=None if spec.scale_attention else 1.0,
        positions=positions,
    )


def _readout(spec: ClassifierSpec) -> nn.Module:
    match spec.readout:
        case "mean":
            return MeanReadout()
        case "cls":
            return FirstReadout()
        case "last":
            return LastReadout()
        case "attention":
            return AttentionReadout(_attention(spec, None), spec.d_model)


def _norm(spec: TransformerSpec | ClassifierSpec) -> nn.Module:
    if spec.norm == "rms":
        return nn.RMSNorm(spec.d_model, eps=spec.norm_eps)
    return nn.LayerNorm(spec.d_model, eps=spec.norm_eps)


@torch.no_grad()
def initialise(model: Transformer) -> None:
    """Set maps to Xavier-uniform, biases to zero, and token tables to a normal whose size fits their scale."""
    _initialise_maps(model)
    spec = model.spec
    # Vectors enter the stack with a variance of about one, as positions do; a table that is also the output map must
    # start small, or the first logits are far too sure.
    small = spec.scale_embeddings or spec.tie != "none"
    for embedding in (model.source_embedding, model.target_embedding):
        table = _table(embedding)
        nn.init.normal_(table.weight, std=spec.d_model**-0.5 if small else 1.0)
        nn.init.zeros_(table.weight[PAD])


@torch.no_grad()
def _initialise_maps(model: nn.Module) -> None:
    """Set maps to Xavier-uniform and biases to zero.

    The fused query-key-value map counts as one matrix, so each of its parts starts 1/√2 smaller than alone.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def tie(model: Transformer) -> None:
    """Make the tables that ``model.spec.tie`` names one parameter; called again whenever weights are replaced."""
    shared = _table(model.target_embedding).weight
    if model.spec.tie != "none":
        model.output.weight = shared
    if model.spec.tie == "all":
        _table(model.source_embedding).weight = shared


def _table(embedding: Embedding) -> nn.Embedding:
    return cast(TokenTable, embedding.vectors).table
