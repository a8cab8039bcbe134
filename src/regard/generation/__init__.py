"""Search in whatever can ``start``, ``step`` and ``reorder``: beams, samples, controls, ensembles, forced scores.

Names are loaded when first used, so that a recipe's options are read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.generation.beam import BeamSearch, beam_search
    from regard.generation.controls import Bias, ForcedPrefix, NoRepeat, RepetitionPenalty, Suppress
    from regard.generation.ensemble import Ensemble
    from regard.generation.greedy import greedy_search
    from regard.generation.hypothesis import Hypothesis
    from regard.generation.options import SamplingOptions, SearchOptions
    from regard.generation.phrases import ForcedPhrases
    from regard.generation.risk import least_risk
    from regard.generation.sampling import sample
    from regard.generation.scoring import Forced, force, score_all, score_at_once
    from regard.generation.search import generate, generate_all

__all__ = [
    "BeamSearch",
    "Bias",
    "Ensemble",
    "Forced",
    "ForcedPhrases",
    "ForcedPrefix",
    "Hypothesis",
    "NoRepeat",
    "RepetitionPenalty",
    "SamplingOptions",
    "SearchOptions",
    "Suppress",
    "beam_search",
    "force",
    "generate",
    "generate_all",
    "greedy_search",
    "least_risk",
    "sample",
    "score_all",
    "score_at_once",
]

_HOME = {
    "beam": ("BeamSearch", "beam_search"),
    "controls": ("Bias", "ForcedPrefix", "NoRepeat", "RepetitionPenalty", "Suppress"),
    "ensemble": ("Ensemble",),
    "greedy": ("greedy_search",),
    "hypothesis": ("Hypothesis",),
    "options": ("SamplingOptions", "SearchOptions"),
    "phrases": ("ForcedPhrases",),
    "risk": ("least_risk",),
    "sampling": ("sample",),
    "scoring": ("Forced", "force", "score_all", "score_at_once"),
    "search": ("generate", "generate_all"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
