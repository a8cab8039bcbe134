"""What may the parameters of the estimator be, and what do they mean? Of the model, the training, and the classes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import RecipeError
from regard.models import ClassifierSpec, Dropout
from regard.models.specs import LARGEST, POSITIONS
from regard.signals.cases import Cases, Indices
from regard.signals.classifier import SignalClassifier
from regard.signals.fitting import weights_of_classes
from regard.signals.pace import WARMUP, pace
from regard.signals.preparation import Missing, Preparation, Scaling
from regard.training import TrainingOptions

if TYPE_CHECKING:
    from regard.signals.estimator import TransformerClassifier

WHOLE: Mapping[str, tuple[int, float]] = {
    "d_model": (1, LARGEST),
    "num_heads": (1, LARGEST),
    "layers": (1, 1000),
    "d_ff": (1, LARGEST),
    "window": (1, LARGEST),
    "stride": (1, LARGEST),
    "convolutions": (0, 1000),
    "updates": (1, math.inf),
    "batch_size": (1, math.inf),
    "warmup": (0, math.inf),
    "patience": (1, math.inf),
    "verbose": (0, math.inf),
}
"""Parameters that count something: the least and the most."""

OPTIONAL = frozenset({"d_ff", "stride", "updates", "warmup", "patience"})
"""Of these, the ones that may be None."""

_BELOW_1: tuple[str, Callable[[float], bool]] = ("at least 0 and below 1", lambda value: 0 <= value < 1)

REAL: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    "dropout": _BELOW_1,
    "learning_rate": ("above 0", lambda value: 0 < value < math.inf),
    "label_smoothing": _BELOW_1,
    "weight_decay": ("at least 0", lambda value: 0 <= value < math.inf),
    "validation_fraction": ("between 0 and 1", lambda value: 0 < value < 1),
}
"""Parameters that measure something, and their range."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "positions": tuple(POSITIONS),
    "readout": get_args(get_type_hints(ClassifierSpec)["readout"]),
    "residual": get_args(get_type_hints(ClassifierSpec)["residual"]),
    "schedule": get_args(get_type_hints(TrainingOptions)["schedule"]),
    "missing": get_args(Missing),
    "scaling": get_args(Scaling),
}
"""Parameters that are one of several words."""

OTHERS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "iq": ("True or False", lambda value: isinstance(value, bool)),
    "warm_start": ("True or False", lambda value: isinstance(value, bool)),
    "augment": ("a callable, or None", lambda value: value is None or callable(value)),
    "device": ("a name such as 'cpu'", lambda value: isinstance(value, str | torch.device)),
}
"""The rest, but for ``class_weight``, which needs the labels, and ``random_state``, which scikit-learn checks."""


def choices_of(estimator: TransformerClassifier) -> TransformerClassifier:
    """Return a copy of the estimator whose parameters can be used: checked, and numbers of numpy as those of Python.

    Raises:
        TypeError: a parameter is of a type that it cannot have.
        ValueError: it is out of range, or none of the words.
    """
    chosen = copy.copy(estimator)
    chosen.set_params(**{name: plain(value) for name, value in estimator.get_params(deep=False).items()})
    for name, (least, most) in WHOLE.items():
        value = getattr(chosen, name)
        if value is None and name in OPTIONAL:
            continue
        wish = f"a whole number{' or None' if name in OPTIONAL else ''}, at least {least}"
        # verbose=True is what scikit-learn's own estimators take
        if not isinstance(value, int) or (isinstance(value, bool) and name != "verbose"):
            raise TypeError(f"`{name}` must be {wish}, but is {value!r}, a {type(value).__name__}")
        if not least <= value <= most:
            raise RecipeError(f"`{name}` must be {wish if value < least else f'at most {most:,}'}, but is {value}")
    for name, (wish, holds) in REAL.items():
        value = getattr(chosen, name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"`{name}` must be a number {wish}, but is {value!r}, a {type(value).__name__}")
        if not holds(value):
            raise RecipeError(f"`{name}` must be {wish}, but is {value}")
    for name, words in WORDS.items():
        if getattr(chosen, name) not in words:
            raise RecipeError(f"`{name}` must be one of {', '.join(words)}, but is {getattr(chosen, name)!r}")
    for name, (wish, fits) in OTHERS.items():
        if not fits(value := getattr(chosen, name)):
            raise TypeError(f"`{name}` must be {wish}, but is {value!r}")
    if chosen.d_model % chosen.num_heads:
        raise RecipeError(f"`num_heads` must divide d_model = {chosen.d_model}, but is {chosen.num_heads}")
    return chosen


def plain(value: Any) -> Any:
    """Return a number of numpy as one of Python, and all else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def storable(estimator: TransformerClassifier) -> dict[str, Any]:
    """Return the parameters that a file can hold as JSON."""
    parameters = {name: plain(value) for name, value in estimator.get_params(deep=False).items()}
    return {name: value for name, value in parameters.items() if _is_json(value)}


def model_of(
    estimator: TransformerClassifier,
    cases: Cases,
    preparation: Preparation,
    num_classes: int,
    earlier: SignalClassifier | None,
) -> ClassifierSpec:
    """Return the sizes and parts of the model; those that came of the data are as they were ``earlier``.

    Raises:
        ValueError: parameters do not go together.
    """
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
        ValueError: parameters do not go together.
    """
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
        known = classes.tolist()
        if strange := [label for label in wanted if label not in known]:
            raise RecipeError(
                f"`class_weight` has a weight for {strange[0]!r}, which is no label in y: "
                f"{', '.join(map(repr, known[:20]))}{', …' if len(known) > 20 else ''}"
            )
        for label, weight in wanted.items():
            if not isinstance(weight, Real):
                raise TypeError(f"`class_weight` must give numbers, but {label!r} weighs {weight!r}")
        return weights_of_classes(labels, len(classes), [wanted.get(label, 1.0) for label in known])
    if isinstance(wanted, str) and wanted == "balanced":
        return weights_of_classes(labels, len(classes), wanted)
    raise RecipeError(f"`class_weight` must be 'balanced' or label -> weight, but is {wanted!r}")


def _is_json(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return value is None or type(value) in (bool, int, float, str)
