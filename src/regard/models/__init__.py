"""Assembly: what a model is (specs), how it is made (build), what it does (seq2seq)."""

from regard.models.build import build, tie
from regard.models.seq2seq import DecoderState, Transformer
from regard.models.specs import (
    PRESETS,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    TransformerSpec,
    preset,
    spec_from_dict,
    spec_to_dict,
)

__all__ = [
    "PRESETS",
    "DecoderState",
    "Dropout",
    "Learned",
    "NoPositions",
    "RelativeBias",
    "Rotary",
    "Sinusoidal",
    "Transformer",
    "TransformerSpec",
    "build",
    "preset",
    "spec_from_dict",
    "spec_to_dict",
    "tie",
]
