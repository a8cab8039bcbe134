"""How does a model learn from labelled batches? Objective and validation are put together and handed to the training.

Used alike by the estimator, whose run lives in a temporary folder, and by the command line, whose run is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.errors import FolderError, RecipeError
from regard.models import SequenceClassifier, spec_to_dict
from regard.plural import plural
from regard.protocols import BatchSource, Observer
from regard.signals.batches import SignalBatch, SignalBatches
from regard.signals.cases import Array, Indices
from regard.signals.validation import ClassValidation, better
from regard.training import Checkpoints, ClassObjective, Outcome, TrainingOptions, load_tensors, train
from regard.training.diagnosis import NotFiniteError
from regard.training.distributed import ALONE, Ranks


def fit(
    model: SequenceClassifier,
    batches: BatchSource[SignalBatch],
    options: TrainingOptions,
    *,
    folder: str | Path,
    valid: SignalBatches | None = None,
    class_weights: Sequence[float] | None = None,
    observers: Sequence[Observer] = (),
    fingerprint: Mapping[str, Any] | None = None,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Train ``model`` in place, or go on with the run in ``folder``; it is left with the weights the options ask for.

    Args:
        model: on the device where it is to be trained.
        batches: what to learn.
        options: how; ``metric`` decides which weights are best.
        folder: of the run.
        valid: one pass over what is validated on.
        class_weights: what a case of each class counts.
        observers: told what happens.
        fingerprint: what else must not change between a run and its resumption.
        ranks: the processes of this run; all but ``batches``, their shares, is the same for each.

    Raises:
        TrainingError: something was not finite.
        InterruptedRun: Ctrl-C; the state was saved.
    """
    weights = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32)
    objective = ClassObjective(model, options.label_smoothing, weights).to(next(model.parameters()).device)
    outcome = train(
        objective,
        batches,
        options,
        folder=folder,
        schedule=options.rates(model.spec.d_model),
        validate=None if valid is None else ClassValidation(valid, model.spec.num_classes),
        better=better(options.metric),
        observers=observers,
        fingerprint={"model": spec_to_dict(model.spec), "class_weights": class_weights, **(fingerprint or {})},
        ranks=ranks,
    )
    with ranks.first():  # which has written the last of them
        _take_chosen_weights(objective, Path(folder), options)
    return outcome


@contextmanager
def of_no_run() -> Iterator[None]:
    """Within the block, a training that has no folder of its own fails without a word of checkpoints."""
    try:
        yield
    except NotFiniteError as error:
        words = (
            f"update {error.update} was not made: {error.where}. A lower `learning_rate` or longer `warmup` may help"
        )
        raise NotFiniteError(words, error.update, error.where, error.seeds) from None


def _take_chosen_weights(objective: ClassObjective, folder: Path, options: TrainingOptions) -> None:
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
        RecipeError: ``share`` is not between 0 and 1, or a part would be empty.
    """
    if not 0 < share < 1:
        raise RecipeError(f"`validation_fraction` must be between 0 and 1, but is {share}")
    draw = np.random.default_rng(seed)
    held: list[Indices] = []
    for label in np.unique(labels):
        own = draw.permutation(np.flatnonzero(labels == label))
        # a class of one case stays to be learned
        held.append(own[: min(max(round(share * len(own)), 1), len(own) - 1)])
    valid = np.sort(np.concatenate(held))
    train = np.setdiff1d(np.arange(len(labels)), valid)
    if not len(valid) or not len(train):
        raise RecipeError(
            f"{plural(len(labels), 'case is', 'cases are')} too few to set a share of {share} of each class aside; "
            "set none aside"
        )
    return train, valid


def weights_of_classes(labels: Indices, num_classes: int, wanted: Any) -> list[float]:
    """Return what a case of each class counts, so that the mean over the cases is 1.

    Args:
        labels: class numbers of the cases to learn from.
        num_classes: K.
        wanted: ``balanced`` for the inverse of how often a class occurs; or a weight per class, in order.

    Raises:
        RecipeError: a weight is below 0 or not finite, or those of all cases are 0.
    """
    counts = np.bincount(labels, minlength=num_classes)
    raw = 1 / np.maximum(counts, 1) if isinstance(wanted, str) else np.asarray(wanted, dtype=np.float64)
    mean = float((raw * counts).sum() / counts.sum())
    if not (np.isfinite(raw).all() and (raw >= 0).all() and mean > 0):
        raise RecipeError("class weights must be finite and not below 0, and one that occurs must be above 0")
    return [float(weight) for weight in raw / mean]


def take_over(model: SequenceClassifier, classes: Array, earlier: SequenceClassifier, known: Array) -> None:
    """Give ``model`` the weights of an earlier one; classes that it did not know keep their first weights.

    Args:
        model: with its first weights.
        classes: the labels of its classes.
        earlier: of the same sizes but for the classes.
        known: the labels of those.

    Raises:
        RecipeError: the models differ in more than the classes.
    """
    places = {label: place for place, label in enumerate(known.tolist())}
    weights, fresh = dict(earlier.state_dict()), model.state_dict()
    for name in ("output.weight", "output.bias"):
        old, made = weights[name], fresh[name].clone()
        if old.shape[1:] != made.shape[1:]:
            continue  # and told below, with all else that does not fit
        for place, label in enumerate(classes.tolist()):
            if label in places:
                made[place] = old[places[label]]
        weights[name] = made
    try:
        load_tensors(model, weights)
    except FolderError as error:
        raise RecipeError(f"a warm start goes on with a model of the same sizes, but {error}") from None
