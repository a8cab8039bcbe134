"""What is minimised when sequences are put into classes: smoothed cross-entropy, summed over cases, and their count.

Axes: B batch, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

UNCOUNTED = -1
"""The label of a row that costs nothing and is not counted."""


@runtime_checkable
class LabelledBatch(Protocol):
    """A padded batch of labelled sequences."""

    @property
    def frames(self) -> Tensor:  # [B, L, F]
        """Sequences, padded on the right."""
        ...

    @property
    def lengths(self) -> Tensor | None:  # [B]
        """Real frames per row; None when no row is padded."""
        ...

    @property
    def labels(self) -> Tensor:  # [B] int64
        """Class numbers from 0, or `UNCOUNTED`."""
        ...

    @property
    def example_ids(self) -> Sequence[int]:  # B of them
        """Which cases these are."""
        ...


def class_cross_entropy(
    logits: Float[Tensor, "B K"],
    labels: Int[Tensor, " B"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " K"] | None = None,
) -> Float[Tensor, ""]:
    """Return the loss summed over the rows, in nats.

    With ``p = softmax(logits)``, each row costs its class's weight times::

        (1 - smoothing) * -log p[label]  +  smoothing * mean over all K of -log p

    (Szegedy et al. 2016, section 7). Unlike in text, class 0 is a class like any other; rows labelled `UNCOUNTED` cost
    nothing.
    """
    log_p = F.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    known = labels.clamp(min=0)
    costs = -(1 - smoothing) * log_p.gather(-1, known[:, None])[:, 0]
    if smoothing:  # or else 0 times an infinite cost
        costs = costs - smoothing * log_p.mean(dim=-1)
    if weights is not None:
        costs = costs * weights[known]
    return costs.masked_fill(labels == UNCOUNTED, 0.0).sum()


class ClassObjective(nn.Module):
    """A classifier of sequences and its criterion as one module: a batch in, a sum of losses and a count of rows out.

    Args:
        model: anything called with frames and lengths that gives logits [B, K].
        smoothing: the share of the target distribution that is spread over all classes.
        weights: [K] what a case of each class counts; a mean of about 1 over the cases keeps learning rates comparable.
    """

    weights: Tensor | None

    def __init__(self, model: nn.Module, smoothing: float = 0.0, weights: Tensor | None = None) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, batch: Any) -> tuple[Tensor, int]:
        """Return the smoothed, weighted loss summed over the rows, in nats, and how many counted."""
        logits, labels = self.logits(batch)
        counted = int((batch.labels != UNCOUNTED).sum())  # where the batch is, so that no device is waited for
        return class_cross_entropy(logits, labels, self.smoothing, self.weights), counted

    def logits(self, batch: LabelledBatch) -> tuple[Float[Tensor, "B K"], Int[Tensor, " B"]]:
        """Return the scores of each class and the right ones, both where the model is."""
        device = next(self.model.parameters()).device
        lengths = None if batch.lengths is None else batch.lengths.to(device)
        return self.model(batch.frames.to(device), lengths), batch.labels.to(device)
