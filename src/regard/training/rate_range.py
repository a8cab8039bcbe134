"""Which learning rate? Updates at rates that rise by the same factor each time, from too low to too high (Smith 2017).

The loss first stays, then falls, then rises again. The suggested rate is the one at which it falls fastest, counted per
factor of rate, but no higher than a third of the rate at which it is lowest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from regard.errors import RecipeError
from regard.protocols import Batch
from regard.training.diagnosis import NotFiniteError
from regard.training.options import TrainingOptions
from regard.training.step import Updater

LOWEST, HIGHEST, UPDATES = 1e-6, 1.0, 100
_MEMORY = 0.9  # share of the running mean that an update keeps
_TOO_MUCH = 1.3  # times the lowest mean loss: then it is over


@dataclass(frozen=True)
class RatePoint:
    """One update.

    Attributes:
        rate: its learning rate.
        loss: running mean of the loss per token up to it, in nats; before its weights were changed.
    """

    rate: float
    loss: float


def rate_range(
    objective: nn.Module,
    batches: Iterable[Batch],
    options: TrainingOptions,
    *,
    lowest: float = LOWEST,
    highest: float = HIGHEST,
    updates: int = UPDATES,
) -> list[RatePoint]:
    """Train at rising rates, and return a point per update; it ends early when the loss is 1.3 times its lowest.

    Args:
        objective: a module with its first weights; afterwards they are spoilt.
        batches: enough for ``updates``; fewer end the test earlier.
        options: of the optimiser, clipping, accumulation and precision.
        lowest: the first rate.
        highest: the last rate.
        updates: how many.

    Raises:
        RecipeError: the rates do not rise from above 0, or are fewer than 2.
    """
    if not 0 < lowest < highest < math.inf or updates < 2:
        raise RecipeError("the rates to try must rise from above 0, in at least 2 updates")
    updater = Updater(objective, replace(options, learning_rate=highest))
    objective.train()
    points: list[RatePoint] = []
    source = iter(batches)
    mean = 0.0
    for number in range(updates):
        group = list(itertools.islice(source, options.accumulate))
        if not group:
            break
        rate = lowest * (highest / lowest) ** (number / (updates - 1))
        try:
            done = updater(group, number=number + 1, rate=rate)
        except NotFiniteError:
            break
        if not done.applied:
            continue
        mean = _MEMORY * mean + (1 - _MEMORY) * done.loss / done.tokens
        points.append(RatePoint(rate, mean / (1 - _MEMORY ** (len(points) + 1))))
        if points[-1].loss > _TOO_MUCH * min(point.loss for point in points):
            break
    return points


def suggested_rate(points: Sequence[RatePoint]) -> float | None:
    """Return the suggested rate, or None if the loss fell nowhere."""
    if len(points) < 3:
        return None
    lowest = min(range(len(points)), key=lambda i: points[i].loss)
    falls = [
        (points[i + 1].loss - points[i - 1].loss) / math.log(points[i + 1].rate / points[i - 1].rate)
        for i in range(1, min(lowest + 1, len(points) - 1))
    ]
    if not falls or min(falls) >= 0:
        return None
    return min(points[1 + falls.index(min(falls))].rate, points[lowest].rate / 3)
