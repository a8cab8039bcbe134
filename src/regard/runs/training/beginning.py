"""What is told, and frozen, when a training begins, be it of text or of signals?"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from regard.plural import plural
from regard.runs.saying import Say
from regard.runs.training.folder import RunFolder
from regard.training.distributed import Ranks
from regard.training.freeze import freeze


def begin(model: nn.Module, frozen: Sequence[str], folder: RunFolder, ranks: Ranks, say: Say) -> None:
    """Freeze what is named; tell how large the model is, who trains it, and where the run is kept.

    Raises:
        RecipeError: nothing in the model has a name that is to be frozen, or everything has.
    """
    say(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters; the run is kept in {folder.path}")
    if ranks.world > 1:
        say(f"{ranks.world} processes share every update")
    if names := freeze(model, frozen):
        say(f"frozen: {plural(len(names), 'tensor')}, from {names[0]} to {names[-1]}")
