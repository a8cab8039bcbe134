"""Search in whatever can ``start``, ``step`` and ``reorder``: beams, samples, controls, ensembles, forced scores.

Names are loaded when first used, so that a recipe's options are read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Hypothesis": "hypothesis",
    "SearchOptions": "options",
    "SamplingOptions": "options",
    "generate": "search",
    "generate_all": "search",
    "greedy_search": "greedy",
    "beam_search": "beam",
    "BeamSearch": "beam",
    "sample": "sampling",
    "least_risk": "risk",
    "force": "scoring",
    "score_at_once": "scoring",
    "Ensemble": "ensemble",
    "ForcedPhrases": "phrases",
    "ForcedPrefix": "controls",
    "ForbiddenPhrases": "controls",
    "NoRepeat": "controls",
    "RepetitionPenalty": "controls",
    "Suppress": "controls",
    "Bias": "controls",
}

__all__ = [*_HOME]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
