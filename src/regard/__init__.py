"""Regard: the encoder-decoder Transformer, complete. Public names load on first use, so importing costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.models import Transformer, TransformerSpec, build
    from regard.runs.training.train import train
    from regard.signals.estimator import TransformerClassifier
    from regard.translator import Translator, load, load_ensemble
    from regard.verification import verify

__version__ = "0.1.0"

_HOME = {
    "build": "regard.models",
    "Transformer": "regard.models",
    "TransformerClassifier": "regard.signals.estimator",
    "TransformerSpec": "regard.models",
    "train": "regard.runs.training.train",
    "load": "regard.translator",
    "load_ensemble": "regard.translator",
    "Translator": "regard.translator",
    "verify": "regard.verification",
}

__all__ = [
    "Transformer",
    "TransformerClassifier",
    "TransformerSpec",
    "Translator",
    "__version__",
    "build",
    "load",
    "load_ensemble",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
