"""Regard: the encoder-decoder Transformer, complete. Public names load on first use, so importing costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "build": "regard.models",
    "Transformer": "regard.models",
    "TransformerSpec": "regard.models",
    "train": "regard.runs.train",
    "load": "regard.translator",
    "Translator": "regard.translator",
    "verify": "regard.verification",
}

__all__ = ["__version__", *_HOME]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
