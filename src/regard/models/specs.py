"""What a model is, in numbers and words: frozen, serialisable, made of nothing but the standard library.

A spec decides everything about a model but its weights; :mod:`regard.models.builder` makes the model.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.errors import RecipeError, nearest, refuse

LARGEST = 1 << 20
"""No width, vocabulary or length of a spec may exceed this: larger numbers are damage, not models."""


@dataclass(frozen=True)
class Sinusoidal:
    """Fixed sines and cosines, ``interleaved`` as in the paper or ``half`` by half."""

    layout: Literal["interleaved", "half"] = "interleaved"
    kind: Literal["sinusoidal"] = "sinusoidal"


@dataclass(frozen=True)
class Learned:
    """One trained vector per place."""

    kind: Literal["learned"] = "learned"


@dataclass(frozen=True)
class Rotary:
    """Queries and keys turned by their place."""

    base: float = 10_000.0
    layout: Literal["interleaved", "half"] = "interleaved"
    kind: Literal["rotary"] = "rotary"

    def __post_init__(self) -> None:
        if not 0 < self.base < math.inf:
            raise RecipeError(f"model.positions.base must be above 0, but is {self.base}")


@dataclass(frozen=True)
class RelativeBias:
    """A trained number per head and bucket of distances."""

    num_buckets: int = 32
    max_distance: int = 128
    kind: Literal["relative-bias"] = "relative-bias"

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        # Each direction needs a bucket of single distances and one of shared ones, and room between the two.
        if not 4 <= self.num_buckets <= LARGEST:
            yield (f"model.positions.num_buckets must be between 4 and {LARGEST:,}, but is {self.num_buckets}")
        elif not self.num_buckets // 2 < self.max_distance <= LARGEST:
            yield (
                f"model.positions.max_distance must be above num_buckets / 2 = {self.num_buckets // 2} and at most "
                f"{LARGEST:,}, but is {self.max_distance}"
            )


@dataclass(frozen=True)
class NoPositions:
    """No positions: a bag of tokens."""

    kind: Literal["none"] = "none"


Positions = Sinusoidal | Learned | Rotary | RelativeBias | NoPositions

POSITIONS: Mapping[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "relative-bias": RelativeBias,
    "none": NoPositions,
}
"""Each kind of positions by its word."""


@dataclass(frozen=True)
class Dropout:
    """Share of features dropped in training, by place.

    Attributes:
        embedding: Of the embedded tokens, positions included.
        attention: Of the attention weights; costs the fused kernels.
        feed_forward: Of the inner features of the feed-forward network.
        residual: Of what a sublayer adds to the stream.
    """

    embedding: float = 0.1
    attention: float = 0.0
    feed_forward: float = 0.0
    residual: float = 0.1

    def __post_init__(self) -> None:
        refuse(
            *(
                f"model.dropout.{place} must be at least 0 and below 1, but is {share}"
                for place, share in asdict(self).items()
                if not 0 <= share < 1
            )
        )


@dataclass(frozen=True)
class TransformerSpec:
    """An encoder-decoder Transformer.

    Attributes:
        source_vocab: Source vocabulary size.
        target_vocab: Target vocabulary size.
        d_model: Width of every position.
        num_heads: Attention heads, a divisor of ``d_model``.
        d_ff: Inner width of the feed-forward network.
        encoder_layers: Layers of the encoder.
        decoder_layers: Layers of the decoder.
        positions: How places are told to the model: ``sinusoidal``, ``learned``, ``rotary``, ``relative-bias`` or
            ``none``.
        max_len: Longest sequence on either side, end mark included.
        norm: ``layer`` or ``rms``.
        norm_eps: Added to the variance.
        residual: ``post`` (the paper) or ``pre``: where the norm stands.
        encoder_final_norm: A norm after the last encoder layer.
        decoder_final_norm: A norm after the last decoder layer.
        activation: ``relu``, ``gelu``, ``gelu-tanh`` or ``silu``.
        gated: Gated feed-forward network.
        scale_embeddings: Multiply token vectors by √d_model.
        embedding_norm: A norm after the embeddings.
        scale_attention: Divide scores by √(d_model / num_heads); only T5-like models do not.
        tie: Shared tables: ``none``, ``target`` (target and output) or ``all`` (source too: one vocabulary).
        bias: Whether attention and feed-forward maps have biases.
        output_bias: Whether the map to the vocabulary has one.
        dropout: Shares by place; a number stands for that share of embedding and residual.
    """

    source_vocab: int
    target_vocab: int
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    positions: Positions = field(default_factory=Sinusoidal)
    max_len: int = 1024
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    residual: Literal["post", "pre"] = "post"
    encoder_final_norm: bool = False
    decoder_final_norm: bool = False
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    gated: bool = False
    scale_embeddings: bool = True
    embedding_norm: bool = False
    scale_attention: bool = True
    tie: Literal["none", "target", "all"] = "none"
    bias: bool = True
    output_bias: bool = True
    dropout: Dropout = field(default_factory=Dropout)

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        sizes = {"source_vocab": LARGEST, "target_vocab": LARGEST, "encoder_layers": 1000, "decoder_layers": 1000}
        yield from _out_of_range(self, sizes)
        if self.tie == "all" and self.source_vocab != self.target_vocab:
            yield (
                f"model.tie = all needs one vocabulary, but source has {self.source_vocab} entries and target "
                f"{self.target_vocab}; use a joint tokenizer or tie = target"
            )


@dataclass(frozen=True)
class ClassifierSpec:
    """A Transformer encoder that puts a sequence of frames into one of several classes.

    Attributes:
        num_classes: Classes to tell apart.
        num_features: Numbers in a frame.
        d_model: Width of every position.
        num_heads: Attention heads, a divisor of ``d_model``.
        d_ff: Inner width of the feed-forward network.
        layers: Layers of the encoder.
        positions: How places are told to the model: ``sinusoidal``, ``learned``, ``rotary``, ``relative-bias`` or
            ``none``.
        max_len: Most frames in a sequence.
        convolutions: Layers of convolution over time before the embedding.
        kernel: Frames that a convolution makes one frame from, an odd number.
        window: Frames that are embedded together.
        stride: Frames from one window to the next.
        readout: ``mean`` of the real frames, ``cls`` (a trained token in front), ``last`` real frame, or ``attention``.
        norm: ``layer`` or ``rms``.
        norm_eps: Added to the variance.
        residual: ``pre``, ``post`` (the paper's) or ``none``: how sublayers join the stream.
        final_norm: A norm after the last layer.
        activation: ``relu``, ``gelu``, ``gelu-tanh`` or ``silu``.
        gated: Gated feed-forward network.
        scale_embeddings: Multiply embedded frames by √d_model.
        embedding_norm: A norm after the embedding.
        scale_attention: Divide scores by √(d_model / num_heads).
        bias: Whether attention and feed-forward maps have biases.
        dropout: Shares by place; a number stands for that share of embedding and residual.
    """

    num_classes: int
    num_features: int = 1
    d_model: int = 32
    num_heads: int = 4
    d_ff: int = 128
    layers: int = 2
    positions: Positions = field(default_factory=Sinusoidal)
    max_len: int = 1024
    convolutions: int = 0
    kernel: int = 5
    window: int = 1
    stride: int = 1
    readout: Literal["mean", "cls", "last", "attention"] = "mean"
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    residual: Literal["post", "pre", "none"] = "pre"
    final_norm: bool = True
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "gelu"
    gated: bool = False
    scale_embeddings: bool = False
    embedding_norm: bool = False
    scale_attention: bool = True
    bias: bool = True
    dropout: Dropout = field(default_factory=Dropout)

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        sizes = {"num_classes": LARGEST, "num_features": LARGEST, "layers": 1000}
        yield from _out_of_range(self, {**sizes, "kernel": LARGEST, "window": LARGEST, "stride": LARGEST})
        if not 0 <= self.convolutions <= 1000:
            yield f"model.convolutions must be between 0 and 1,000, but is {self.convolutions}"
        if self.kernel % 2 == 0:
            yield f"model.kernel must be odd, so that frames stay where they are, but is {self.kernel}"


def _out_of_range(spec: TransformerSpec | ClassifierSpec, further: Mapping[str, int]) -> Iterator[str]:
    """Tell numbers that no model can have; ``further`` names fields of at least 1 and their largest values."""
    for name, largest in {
        "d_model": LARGEST,
        "num_heads": LARGEST,
        "d_ff": LARGEST,
        "max_len": LARGEST,
        **further,
    }.items():
        value = getattr(spec, name)
        if not 1 <= value <= largest:
            yield f"model.{name} must be between 1 and {largest:,}, but is {value}"
    if not 0 < spec.norm_eps < 1:
        yield f"model.norm_eps must be between 0 and 1, but is {spec.norm_eps}"
    if min(spec.d_model, spec.num_heads) < 1:
        return
    if spec.d_model % spec.num_heads:
        yield f"model.num_heads must divide d_model = {spec.d_model}, but is {spec.num_heads}"
    elif isinstance(spec.positions, Rotary) and (spec.d_model // spec.num_heads) % 2:
        yield "model.positions = rotary needs an even d_model / num_heads"


_SIZES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "d_model": 128,
        "num_heads": 4,
        "d_ff": 256,
        "encoder_layers": 4,
        "decoder_layers": 4,
    },
    "small": {"d_model": 256, "num_heads": 4, "d_ff": 1024},
    "base": {},
    "big": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": Dropout(0.3, 0.0, 0.0, 0.3)},
}

PRESETS = tuple(_SIZES)
"""The words that :func:`preset` knows. ``base`` and ``big`` are those of the paper (table 3)."""


def preset(name: str, *, source_vocab: int, target_vocab: int) -> TransformerSpec:
    """Return the spec of a named size; vary it with ``dataclasses.replace``.

    Raises:
        RecipeError: no preset has that name.
    """
    if name not in _SIZES:
        raise RecipeError(f"model.preset = {name!r} is unknown{nearest(name, _SIZES)}")
    return replace(TransformerSpec(source_vocab, target_vocab), **_SIZES[name])


def spec_to_dict(spec: TransformerSpec | ClassifierSpec) -> dict[str, Any]:
    """Return ``spec`` as plain numbers, words and tables, ready for JSON."""
    return asdict(spec)


def spec_from_dict(data: Mapping[str, Any]) -> TransformerSpec:
    """Return the spec that :func:`spec_to_dict` made ``data`` from.

    Raises:
        RecipeError: a key is unknown or missing, or a value is of the wrong kind; the message names it.
    """
    return _read(TransformerSpec, data, "model")  # type: ignore[no-any-return]


def classifier_spec_from_dict(data: Mapping[str, Any]) -> ClassifierSpec:
    """Return the classifier's spec that :func:`spec_to_dict` made ``data`` from, or raise as :func:`spec_from_dict`."""
    return _read(ClassifierSpec, data, "model")  # type: ignore[no-any-return]


def _read(kind: Any, data: Any, where: str) -> Any:
    """Return ``data`` as an object of the dataclass ``kind``."""
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where} must be a table, but is {data!r}")
    hints = get_type_hints(kind)
    mistakes, values = [], {}
    for key, value in data.items():
        if key not in hints:
            mistakes.append(f"{where}.{key} is unknown{nearest(str(key), hints)}")
            continue
        try:
            values[key] = _value(hints[key], value, f"{where}.{key}")
        except RecipeError as error:
            mistakes += error.mistakes
    for item in fields(kind):
        if item.name not in data and item.default is MISSING and item.default_factory is MISSING:
            mistakes.append(f"{where}.{item.name} is missing")
    refuse(*mistakes)
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):  # the only union of a spec is that of positions, told apart by `kind`
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} must be a table, but is {value!r}")
        if "kind" not in value:
            raise RecipeError(f"{where}.kind is missing; valid: {', '.join(sorted(POSITIONS))}")
        word = str(value["kind"])
        if word not in POSITIONS:
            raise RecipeError(f"{where} = {word!r} is unknown{nearest(word, POSITIONS)}")
        return _read(POSITIONS[word], value, where)
    if is_dataclass(hint):
        return _read(hint, value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise RecipeError(f"{where} = {value!r} is unknown{nearest(str(value), get_args(hint))}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > 2**53:
            raise RecipeError(f"{where} is too large for a number with a fraction")
        return float(value)
    if type(value) is not hint:
        raise RecipeError(f"{where} must be of type {hint.__name__}, but is {value!r}")
    return value
