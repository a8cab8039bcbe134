"""How does a model learn from cases that come in parts? Once from each, with an optimiser that remembers the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.models import SequenceClassifier
from regard.signals.batches import SignalBatches
from regard.training import ClassObjective, TrainingOptions
from regard.training.step import Updater


@dataclass
class Stream:
    """Where such a learning stands.

    Attributes:
        memory: of the optimiser, by parameter and quantity.
        updates: changes of the weights so far.
        parts: learned from so far.
    """

    memory: dict[str, Tensor] = field(default_factory=dict)
    updates: int = 0
    parts: int = 0


def learn_part(
    model: SequenceClassifier,
    batches: SignalBatches,
    options: TrainingOptions,
    stream: Stream,
    class_weights: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Learn from each batch of a part once, in place; ``stream`` moves on with it.

    Args:
        model: on the device where it is to be trained.
        batches: of the part; its order is that of the epoch with the part's number.
        options: how; the schedule goes on from part to part, and must need no end.
        stream: where the parts before have led.
        class_weights: what a case of each class counts.

    Returns:
        An event per update.

    Raises:
        NotFiniteError: a loss or gradient is not finite; the update was not made.
    """
    weights = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32)
    objective = ClassObjective(model, options.label_smoothing, weights).to(next(model.parameters()).device)
    updater, rates = Updater(objective, options), options.rates(model.spec.d_model)
    updater.remember(stream.memory)
    objective.train()
    events = []
    for batch in batches.epoch(stream.parts):
        rate = rates(stream.updates + 1)
        done = updater([batch], number=stream.updates + 1, rate=rate)
        stream.updates += 1
        events.append({"event": "update", "update": stream.updates, "loss": done.loss / done.tokens, "rate": rate})
    stream.memory = {name: tensor.detach().cpu() for name, tensor in updater.memory().items()}
    stream.parts += 1
    return events
