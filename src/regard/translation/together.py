"""One model, or several that are searched as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

import torch

from regard.errors import InputError
from regard.generation import Ensemble
from regard.models import Transformer
from regard.plural import plural
from regard.protocols import StepDecoder
from regard.training import evaluation_mode
from regard.translation.looking import Looking


class Together:
    """Models with the same vocabularies.

    Args:
        models: at least one.
        weights: one per model; equal if not given.
        average: whether log-probabilities are averaged or probabilities (``linear``).

    Raises:
        InputError: the weights are not one for each model, or one is no number above 0.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        weights: Sequence[float] | None = None,
        average: Literal["log", "linear"] = "log",
    ) -> None:
        if weights is not None and len(weights) != len(models):
            raise InputError(
                "there must be a weight for each model: "
                f"{plural(len(weights), 'weight')} for {plural(len(models), 'model')}"
            )
        self.models = tuple(models)
        self._weights, self._average = weights, average
        Ensemble(models, weights, average)  # refuses weights that cannot be, of a single model too

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return next(self.models[0].parameters()).device

    @property
    def longest(self) -> int:
        """Most tokens of a text or an output, not counting the mark before a target or behind a source."""
        return min(model.spec.max_len for model in self.models) - 1

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within the block all are in evaluation mode, afterwards each part in its own again."""
        with ExitStack() as modes:
            for model in self.models:
                modes.enter_context(evaluation_mode(model))
            yield

    def decoder(self, *, look: bool) -> StepDecoder:
        """Return what is searched; with ``look`` its steps tell where it looks."""
        decoders = [Looking(model) if look else model for model in self.models]
        return decoders[0] if len(decoders) == 1 else Ensemble(decoders, self._weights, self._average)
