"""Assembly: what a model is (specs), how it is made (builder), what it does (seq2seq, classifier), how
a search takes its steps sooner (bound), what it can lack.

Specs are there at once; what needs torch is loaded when first used, so that a recipe is read without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from regard.models.ablations import Ablated, ablate, ablation_names
    from regard.models.bound import bind
    from regard.models.builder import build, build_classifier, tie
    from regard.models.classifier import SequenceClassifier
    from regard.models.packed import PackedWeights
    from regard.models.seq2seq import DecoderState, Transformer

_HOME = {
    "Ablated": "ablations",
    "DecoderState": "seq2seq",
    "PackedWeights": "packed",
    "SequenceClassifier": "classifier",
    "Transformer": "seq2seq",
    "ablate": "ablations",
    "ablation_names": "ablations",
    "bind": "bound",
    "build": "builder",
    "build_classifier": "builder",
    "tie": "builder",
}

__all__ = [
    "PRESETS",
    "Ablated",
    "ClassifierSpec",
    "DecoderState",
    "Dropout",
    "Learned",
    "NoPositions",
    "PackedWeights",
    "RelativeBias",
    "Rotary",
    "SequenceClassifier",
    "Sinusoidal",
    "Transformer",
    "TransformerSpec",
    "ablate",
    "ablation_names",
    "bind",
    "build",
    "build_classifier",
    "classifier_spec_from_dict",
    "preset",
    "spec_from_dict",
    "spec_to_dict",
    "tie",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
