"""How good is a classifier in the middle of its training? Loss and accuracy over the whole held-out part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import nn

from regard.evaluation import classification_report
from regard.signals.batches import SignalBatch, SignalBatches
from regard.training import Better, ClassObjective

FIGURES: Mapping[str, bool] = {"loss": False, "accuracy": True, "balanced_accuracy": True, "macro_f1": True}
"""What is measured, and whether higher is better."""


class ClassValidation:
    """Called with the objective in evaluation mode; gives the figures by name: ``loss`` in nats, the others in percent.

    Args:
        batches: of the held-out part, as one pass over it.
        num_classes: K.
    """

    def __init__(self, batches: SignalBatches, num_classes: int) -> None:
        self.batches = batches
        self.num_classes = num_classes

    def __call__(self, objective: nn.Module) -> Mapping[str, float]:
        """Return the figures of the model that ``objective`` trains."""
        found = [_scored(cast(ClassObjective, objective), batch) for batch in self.batches.epoch(0)]
        labels = np.concatenate([right for right, _ in found])
        probabilities = np.concatenate([given for _, given in found])
        report = classification_report(labels, probabilities, [str(index) for index in range(self.num_classes)])
        return {"loss": report.nll} | {name: getattr(report, name) for name in FIGURES if name != "loss"}


def better(metric: str) -> Better:
    """Return which figure decides what is best, and in which direction."""
    return Better(metric, higher=FIGURES.get(metric, False))


def _scored(objective: ClassObjective, batch: SignalBatch) -> tuple[np.ndarray, np.ndarray]:
    logits, labels = objective.logits(batch)
    return labels.cpu().numpy(), logits.double().softmax(dim=1).cpu().numpy()
