"""What do the parameters of the estimator mean? Of the model, of the training, and for the classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from regard.models import ClassifierSpec, Dropout
from regard.models.specs import POSITIONS
from regard.signals.cases import Cases, Indices
from regard.signals.classifier import SignalClassifier
from regard.signals.fitting import weights_of_classes
from regard.signals.pace import WARMUP, pace
from regard.signals.preparation import Preparation
from regard.training import TrainingOptions

if TYPE_CHECKING:
    from regard.signals.estimator import TransformerClassifier


def model_of(
    estimator: TransformerClassifier,
    cases: Cases,
    preparation: Preparation,
    num_classes: int,
    earlier: SignalClassifier | None,
) -> ClassifierSpec:
    """Return the sizes and parts of the model; those that came of the data are as they were ``earlier``.

    Raises:
        ValueError: a parameter cannot be used.
    """
    if estimator.positions not in POSITIONS:
        raise ValueError(f"`positions` must be one of {', '.join(POSITIONS)}, but is {estimator.positions!r}")
    longest = int(cases.lengths.max())
    return ClassifierSpec(
        num_classes,
        preparation.num_features,
        d_model=estimator.d_model,
        num_heads=estimator.num_heads,
        d_ff=estimator.d_ff or 4 * estimator.d_model,
        layers=estimator.layers,
        positions=POSITIONS[estimator.positions](),
        # a trained table has no rows for places that no case of the training reached
        max_len=(longest if estimator.positions == "learned" else max(1024, 2 * longest))
        if earlier is None
        else earlier.model.spec.max_len,
        convolutions=estimator.convolutions,
        window=estimator.window,
        stride=estimator.window if estimator.stride is None else estimator.stride,
        readout=estimator.readout,
        residual=estimator.residual,
        dropout=Dropout(embedding=estimator.dropout, residual=estimator.dropout),
    )


def training_of(estimator: TransformerClassifier, num_train: int, seed: int, *, parts: bool = False) -> TrainingOptions:
    """Return how ``num_train`` cases are learned from: all of them at once, or as one of several ``parts``.

    Raises:
        ValueError: a parameter cannot be used.
    """
    if estimator.batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, but is {estimator.batch_size}")
    fits = pace(num_train, estimator.batch_size, estimator.updates)
    return TrainingOptions(
        updates=fits.updates,
        patience=estimator.patience,
        learning_rate=estimator.learning_rate,
        weight_decay=estimator.weight_decay,
        # nobody knows where parts end, and so nothing can fall until there
        schedule="constant" if parts and estimator.schedule in ("cosine", "linear") else estimator.schedule,
        warmup=(WARMUP if parts else fits.warmup) if estimator.warmup is None else estimator.warmup,
        label_smoothing=estimator.label_smoothing,
        validate_every=fits.validate_every,
        save_every=max(fits.updates, 1),  # so that of 0 updates the words are about updates
        keep_last=1,
        seed=seed,
    )


def weights_of(estimator: TransformerClassifier, labels: Indices, classes: npt.NDArray[Any]) -> list[float] | None:
    """Return what a case of each class counts; None where all count alike.

    Args:
        estimator: whose parameter says so.
        labels: class numbers of all cases.
        classes: their labels.

    Raises:
        ValueError: the parameter cannot be used.
    """
    wanted = estimator.class_weight
    if wanted is None:
        return None
    if isinstance(wanted, Mapping):
        return weights_of_classes(labels, len(classes), [wanted.get(label, 1.0) for label in classes.tolist()])
    if wanted == "balanced":
        return weights_of_classes(labels, len(classes), wanted)
    raise ValueError(f"`class_weight` must be 'balanced' or label -> weight, but is {wanted!r}")
