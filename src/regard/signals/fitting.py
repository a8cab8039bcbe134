"""How does a model learn labelled cases? Batches, objective and validation are put together and handed to the training.

Used alike by the estimator, whose run lives in a temporary folder, and by the command line, whose run is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.models import SequenceClassifier, spec_to_dict
from regard.protocols import Observer
from regard.signals.batches import Augment, SignalBatches
from regard.signals.cases import Cases, Indices
from regard.signals.preparation import Preparation
from regard.signals.validation import ClassValidation, better
from regard.training import Checkpoints, ClassObjective, Outcome, TrainingOptions, load_tensors, train


@dataclass(frozen=True)
class LabelledCases:
    """Cases, the class of each, and which of them are learned from and which validated on.

    Attributes:
        cases: all of them.
        labels: class number of each case.
        train: the cases to learn from.
        valid: those to validate on; None for none.
    """

    cases: Cases
    labels: Indices
    train: Indices
    valid: Indices | None = None


def fit(
    model: SequenceClassifier,
    preparation: Preparation,
    data: LabelledCases,
    options: TrainingOptions,
    *,
    folder: str | Path,
    batch_size: int,
    class_weights: Sequence[float] | None = None,
    augment: Augment | None = None,
    observers: Sequence[Observer] = (),
) -> Outcome:
    """Train ``model`` in place, or go on with the run in ``folder``; it is left with the best weights that were seen.

    Best by ``options.metric`` of the validation part, or the last where there is none.

    Args:
        model: on the device where it is to be trained.
        preparation: fitted on ``data.train``.
        data: what to learn.
        options: how.
        folder: of the run.
        batch_size: cases in a batch.
        class_weights: what a case of each class counts.
        augment: what is changed in a case each time that it is seen.
        observers: told what happens.

    Raises:
        TrainingError: something was not finite.
        InterruptedRun: Ctrl-C; the state was saved.
    """

    def batches(rows: Indices, *, learn: bool) -> SignalBatches:
        return SignalBatches(
            data.cases,
            rows,
            data.labels,
            preparation,
            batch_size=batch_size,
            seed=options.seed,
            shuffle=learn,
            augment=augment if learn else None,
        )

    weights = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32)
    objective = ClassObjective(model, options.label_smoothing, weights).to(next(model.parameters()).device)
    outcome = train(
        objective,
        batches(data.train, learn=True),
        options,
        folder=folder,
        schedule=options.rates(model.spec.d_model),
        validate=None
        if data.valid is None
        else ClassValidation(batches(data.valid, learn=False), model.spec.num_classes),
        better=better(options.metric),
        observers=observers,
        fingerprint={"model": spec_to_dict(model.spec), "batch_size": batch_size, "class_weights": class_weights},
    )
    chosen_weights(objective, Path(folder), options)
    return outcome


def chosen_weights(objective: ClassObjective, folder: Path, options: TrainingOptions) -> None:
    """Give ``objective`` the weights that the options ask for: best, last, or a mean of several."""
    checkpoints = Checkpoints(folder / "checkpoints")
    if options.average == "none":
        updates = checkpoints.chosen("best" if options.keep_best else "last", 1)
    else:
        updates = checkpoints.chosen(options.average, options.average_count)
    load_tensors(objective, checkpoints.average(updates))


def hold_out(labels: Indices, share: float, seed: int) -> tuple[Indices, Indices]:
    """Return the cases to learn from and those to validate on: about ``share`` of each class, at least one of all.

    Raises:
        InputError: ``share`` is not between 0 and 1, or a part would be empty.
    """
    if not 0 < share < 1:
        raise InputError(f"`validation_fraction` must be between 0 and 1, but is {share}")
    draw = np.random.default_rng(seed)
    held: list[Indices] = []
    for label in np.unique(labels):
        own = draw.permutation(np.flatnonzero(labels == label))
        # a class of one case stays to be learned
        held.append(own[: min(max(round(share * len(own)), 1), len(own) - 1)])
    valid = np.sort(np.concatenate(held))
    train = np.setdiff1d(np.arange(len(labels)), valid)
    if not len(valid) or not len(train):
        raise InputError(f"{len(labels)} cases are too few to set a share of {share} of each class aside")
    return train, valid


def weights_of_classes(labels: Indices, num_classes: int, wanted: Any) -> list[float]:
    """Return what a case of each class counts, so that the mean over the cases is 1.

    Args:
        labels: class numbers of the cases to learn from.
        num_classes: K.
        wanted: ``balanced`` for the inverse of how often a class occurs; or a weight per class, in order.
    """
    counts = np.bincount(labels, minlength=num_classes)
    raw = 1 / np.maximum(counts, 1) if isinstance(wanted, str) else np.asarray(wanted, dtype=np.float64)
    mean = float((raw * counts).sum() / counts.sum())
    if not (np.isfinite(raw).all() and (raw >= 0).all() and mean > 0):
        raise InputError("class weights must be finite and not below 0, and one that occurs must be above 0")
    return [float(weight) for weight in raw / mean]


def device_named(name: str) -> torch.device:
    """Return the device; ``auto`` is a CUDA device if there is one, else the processor."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def kept_classes(old: Tensor, matches: Sequence[int | None], fresh: Tensor) -> Tensor:
    """Return ``fresh`` with the rows of the classes that ``old`` knows: class k was class ``matches[k]``, or is new."""
    made = fresh.clone()
    for row, match in enumerate(matches):
        if match is not None:
            made[row] = old[match]
    return made
