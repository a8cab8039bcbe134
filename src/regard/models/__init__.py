"""Assembly: what a model is (specs), how it is made (build), what it does (seq2seq, classifier), what it can lack."""

from regard.models.ablations import Ablated, ablate, ablations
from regard.models.build import build, build_classifier, tie
from regard.models.classifier import SequenceClassifier
from regard.models.seq2seq import DecoderState, Transformer
from regard.models.specs import (
    PRESETS,
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    TransformerSpec,
    classifier_spec_from_dict,
    preset,
    spec_from_dict,
    spec_to_dict,
)

__all__ = [
    "PRESETS",
    "Ablated",
    "ClassifierSpec",
    "DecoderState",
    "Dropout",
    "Learned",
    "NoPositions",
    "RelativeBias",
    "Rotary",
    "SequenceClassifier",
    "Sinusoidal",
    "Transformer",
    "TransformerSpec",
    "ablate",
    "ablations",
    "build",
    "build_classifier",
    "classifier_spec_from_dict",
    "preset",
    "spec_from_dict",
    "spec_to_dict",
    "tie",
]
