"""Several models that share a target vocabulary, searched as one.

Axes: B batch, S source length, N rows, M models, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.plural import plural
from regard.protocols import Step, StepDecoder


class Ensemble:
    """A decoder whose distribution is the weighted mean of others'.

    ``linear`` averages probabilities, sum_m w_m p_m; ``log`` averages log-probabilities and is normalised again,
    prod_m p_m^w_m / Z: a word must please all models. Attention is averaged when all tell theirs.

    Args:
        decoders: at least one.
        weights: one per decoder, scaled to sum to 1; equal if not given.
        average: ``log`` or ``linear``.
    """

    def __init__(
        self,
        decoders: Sequence[StepDecoder],
        weights: Sequence[float] | None = None,
        average: Literal["log", "linear"] = "log",
    ) -> None:
        check_average(len(decoders), weights, average)
        weights = [1.0] * len(decoders) if weights is None else weights
        self._decoders = list(decoders)
        shares = [weight / max(weights) for weight in weights]  # whose sum is finite
        self._weights = [share / sum(shares) for share in shares]
        self._average = average

    def start(self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None = None) -> list[Any]:
        """Return the states of all decoders."""
        return [decoder.start(source, source_lengths) for decoder in self._decoders]

    def step(self, tokens: Int[Tensor, " N"], state: list[Any]) -> Step:
        """Feed all decoders and average what they say.

        Raises:
            ShapeError: their vocabularies differ in size.
        """
        steps = [decoder.step(tokens, of_one) for decoder, of_one in zip(self._decoders, state, strict=True)]
        sizes = [step.logits.shape[-1] for step in steps]
        if len(set(sizes)) > 1:
            raise ShapeError(
                f"the decoders of an ensemble must share a target vocabulary, but theirs have sizes {sizes}"
            )
        log_probs_MNV = torch.stack([step.logits.float().log_softmax(dim=-1) for step in steps])
        weights = log_probs_MNV.new_tensor(self._weights)[:, None, None]
        if self._average == "log":
            logits = (weights * log_probs_MNV).sum(dim=0)
        else:
            logits = (weights.log() + log_probs_MNV).logsumexp(dim=0)
        looks = [step.attention for step in steps if step.attention is not None]
        attention = (weights * torch.stack(looks)).sum(dim=0) if len(looks) == len(steps) else None
        return Step(logits, [step.state for step in steps], attention)

    def reorder(self, state: list[Any], rows: Int[Tensor, " M"]) -> list[Any]:
        """Reorder the states of all decoders."""
        return [decoder.reorder(of_one, rows) for decoder, of_one in zip(self._decoders, state, strict=True)]


def check_average(count: int, weights: Sequence[float] | None, average: str) -> None:
    """Refuse an average that ``count`` models cannot have.

    Raises:
        InputError: there is no such average, no model, or not a weight above 0 for each.
    """
    if average not in ("log", "linear"):
        raise InputError(f"the average of an ensemble must be 'log' or 'linear', but is {average!r}")
    if not count:
        raise InputError("an ensemble must have at least one model")
    if weights is not None and len(weights) != count:
        told = f"{plural(len(weights), 'weight')} for {plural(count, 'model')}"
        raise InputError(f"an ensemble must have a weight for each model, but has {told}")
    if weights is not None and not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise InputError(f"the weights of an ensemble must be above 0, but are {list(weights)}")
