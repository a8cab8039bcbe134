"""Search in whatever can ``start``, ``step`` and ``reorder``: greedy, beam, and how hypotheses are scored.

Names are loaded when first used, so that a recipe's options are read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Hypothesis": "hypothesis",
    "SearchOptions": "options",
    "beam_search": "beam",
    "generate": "search",
    "generate_all": "search",
    "greedy_search": "greedy",
}

__all__ = [*_HOME]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
