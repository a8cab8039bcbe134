"""Sequences of numbers put into classes: how they become frames, what learns them, and how that is used and explained.

Read: cases → preparation → batches → fitting → classifier → estimator. Names are loaded when first used, so that the
parts that need no scikit-learn work without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.signals.cases import Cases, as_cases
    from regard.signals.classifier import SignalClassifier, load_classifier
    from regard.signals.estimator import TransformerClassifier
    from regard.signals.preparation import Preparation

_HOME = {
    "Cases": "cases",
    "Preparation": "preparation",
    "SignalClassifier": "classifier",
    "TransformerClassifier": "estimator",
    "as_cases": "cases",
    "load_classifier": "classifier",
}

__all__ = [
    "Cases",
    "Preparation",
    "SignalClassifier",
    "TransformerClassifier",
    "as_cases",
    "load_classifier",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
