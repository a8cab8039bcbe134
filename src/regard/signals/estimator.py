"""A Transformer encoder as scikit-learn has its classifiers: fit arrays, predict labels. Needs the extra ``signals``.

The work is done elsewhere: `regard.signals.fitting` learns, `regard.signals.classifier` is what is learned.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import InterruptedRun, MissingExtraError, ShapeError
from regard.models import ClassifierSpec, Dropout, SequenceClassifier, build_classifier
from regard.models.specs import POSITIONS
from regard.signals.batches import Augment, SignalBatches
from regard.signals.cases import Cases, Indices, as_cases
from regard.signals.classifier import SignalClassifier, load_classifier
from regard.signals.fitting import device_named, fit, hold_out, take_over, weights_of_classes
from regard.signals.preparation import Floats, Missing, Preparation, Scaling
from regard.training import TrainingOptions
from regard.training.observers import Progress
from regard.training.random_state import kept_random_state

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtraError("scikit-learn", "signals") from None

PASSES, FEWEST, MOST = 40, 300, 20_000
"""Updates where none are asked for: so many passes over the cases, and within these bounds."""


class TransformerClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify sequences of numbers: sensors, radio frames, heartbeats, spectra.

    X is [n, length], [n, channels, length], or a list of arrays [length] or [channels, length] of unequal lengths. A
    table [n, length] must keep its length, as scikit-learn has it; the others may have any.

    Args:
        d_model: width of the model.
        num_heads: attention heads, a divisor of ``d_model``.
        layers: of the encoder.
        d_ff: inner width of the feed-forward network; 4 × ``d_model`` by default.
        positions: ``sinusoidal``, ``learned``, ``rotary``, ``relative-bias`` or ``none``.
        readout: ``mean`` over the frames, ``cls`` (a trained token in front), ``last`` frame, or ``attention``.
        residual: ``pre``, ``post`` (the paper's) or ``none``.
        window: frames that are embedded together.
        stride: frames from one window to the next; the size of a window by default, so that none overlap.
        convolutions: layers of convolution over time before the embedding.
        dropout: share of features dropped after the embedding and in each sublayer, in training.
        iq: complex numbers, or channels in pairs, are in-phase and quadrature.
        missing: NaN is an ``error``, or values to ``mask``: they read as the mean, and a flag tells the model so.
        scaling: standardise each ``channel`` as in training, each channel of the ``case`` by itself, or ``none``.
        augment: what is changed in a case each time that it is learned from; see `regard.signals.augmentation`.
        updates: changes of the weights; left out, as many as 40 passes need, from 300 to 20,000.
        batch_size: cases in a batch.
        learning_rate: the highest; not used by ``noam``.
        schedule: ``cosine``, ``linear``, ``constant``, ``inverse_sqrt`` or ``noam``.
        warmup: updates of linear rise at the start; a tenth of all by default.
        label_smoothing: share of the target spread over all classes.
        weight_decay: on matrices.
        validation_fraction: share of each class that is validated on, if ``patience`` is given.
        patience: stop after so many validations, one a pass, that brought nothing better, and take the best weights.
        class_weight: ``balanced``, or label -> weight; labels left out weigh 1.
        warm_start: another ``fit`` goes on from the weights it finds. Standardisation is kept; classes may come and go,
            and only the rows of new ones start afresh.
        random_state: a number makes ``fit`` repeatable.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        verbose: 1 tells on stderr how it goes.

    Attributes:
        classes_: [K] the labels, sorted.
        classifier_: what was learned, usable without scikit-learn.
        n_features_in_: the length, where X was a table.
        n_updates_: changes of the weights that were made.
        history_: one dict per update and validation, for ``regard.inspection.figures.learning_curves``.
    """

    def __init__(
        self,
        *,
        d_model: int = 32,
        num_heads: int = 4,
        layers: int = 2,
        d_ff: int | None = None,
        positions: str = "sinusoidal",
        readout: Literal["mean", "cls", "last", "attention"] = "mean",
        residual: Literal["pre", "post", "none"] = "pre",
        window: int = 1,
        stride: int | None = None,
        convolutions: int = 0,
        dropout: float = 0.1,
        iq: bool = False,
        missing: Missing = "error",
        scaling: Scaling = "channel",
        augment: Augment | None = None,
        updates: int | None = None,
        batch_size: int = 64,
        learning_rate: float = 2e-3,
        schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "noam"] = "cosine",
        warmup: int | None = None,
        label_smoothing: float = 0.1,
        weight_decay: float = 0.01,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.d_model = d_model
        self.num_heads = num_heads
        self.layers = layers
        self.d_ff = d_ff
        self.positions = positions
        self.readout = readout
        self.residual = residual
        self.window = window
        self.stride = stride
        self.convolutions = convolutions
        self.dropout = dropout
        self.iq = iq
        self.missing = missing
        self.scaling = scaling
        self.augment = augment
        self.updates = updates
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup = warmup
        self.label_smoothing = label_smoothing
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        return tags

    def fit(self, X: Any, y: Any) -> TransformerClassifier:
        """Learn the labels ``y`` of the cases ``X``.

        Raises:
            ValueError: X or y cannot be used, or a parameter.
            TypeError: X is sparse, or holds objects.
        """
        cases, y = self._learnable(X, y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y holds 1 class, {classes.tolist()[0]!r}, but a classifier needs at least two")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, valid = np.arange(len(cases)), None
        if self.patience is not None:
            train, valid = hold_out(labels, self.validation_fraction, seed)
        earlier: SignalClassifier | None = getattr(self, "classifier_", None) if self.warm_start else None
        preparation = (
            Preparation.fit(cases, train, iq=self.iq, missing=self.missing, scaling=self.scaling)
            if earlier is None
            else earlier.preparation
        )
        options = self._options(len(train), seed)

        def batches(rows: Indices, *, learn: bool) -> SignalBatches:
            augment = self.augment if learn else None
            return SignalBatches(
                cases, rows, labels, preparation, batch_size=self.batch_size, seed=seed, shuffle=learn, augment=augment
            )

        with kept_random_state():
            torch.manual_seed(seed)
            model = build_classifier(self._spec(cases, preparation, len(classes), earlier))
            if earlier is not None:
                take_over(model, classes, earlier.model, earlier.classes)
            self._train(
                model.to(device_named(self.device)),
                batches(train, learn=True),
                None if valid is None else batches(valid, learn=False),
                options,
                self._class_weights(labels[train], classes),
            )
        self.classes_ = classes
        self.classifier_ = SignalClassifier(model.eval(), preparation, classes)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each case, [n]."""
        check_is_fitted(self)
        labels: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, [n, K], in the order of ``classes_``."""
        check_is_fitted(self)
        if hasattr(self, "n_features_in_") and self._is_table(X):
            X = validate_data(self, X, ensure_all_finite=self._finite(), reset=False)
        return self.classifier_.probabilities(_cases(X))

    def save(self, folder: str | Path) -> None:
        """Write a model folder, which also ``regard classify`` and `regard.signals.load_classifier` read.

        Parameters that are objects (``augment``, a generator as ``random_state``) are not stored.
        """
        check_is_fitted(self)
        parameters = {key: value for key, value in self.get_params().items() if _is_json(value)}
        recipe = {"estimator": parameters, "n_features_in": getattr(self, "n_features_in_", None)}
        learned = self.classifier_
        SignalClassifier(learned.model, learned.preparation, learned.classes, recipe).save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> TransformerClassifier:
        """Return the estimator that `save` stored; also one for a model that ``regard train`` made.

        Raises:
            FolderError: there is no classifier.
            DamagedError: a file is not what was sealed.
        """
        learned = load_classifier(folder)
        known = cls._get_param_names()
        given = learned.recipe.get("estimator", {})
        made = cls(**{key: value for key, value in given.items() if key in known})
        made.classifier_ = learned
        made.classes_ = learned.classes
        if (length := learned.recipe.get("n_features_in")) is not None:
            made.n_features_in_ = length
        return made

    def _learnable(self, X: Any, y: Any) -> tuple[Cases, npt.NDArray[Any]]:
        if y is None:
            raise ValueError("This TransformerClassifier estimator requires y to be passed, but the target y is None")
        if self._is_table(X):
            X, y = validate_data(self, X, y, ensure_all_finite=self._finite())
        else:
            for stale in ("n_features_in_", "feature_names_in_"):
                if hasattr(self, stale):
                    delattr(self, stale)
            y = column_or_1d(y, warn=True)
        cases = _cases(X)
        check_consistent_length(cases, y)
        check_classification_targets(y)
        return cases, y

    def _is_table(self, X: Any) -> bool:
        """Whether scikit-learn should look at X: all but 3-D arrays, lists of sequences, and wanted complex numbers."""
        if hasattr(X, "ndim"):
            if self.iq and getattr(X, "dtype", None) is not None and np.iscomplexobj(X):
                return False
            return not (X.ndim == 3 or (X.ndim == 1 and X.dtype == object))
        if isinstance(X, list | tuple) and len(X):
            shapes = {np.shape(row) for row in X if isinstance(row, np.ndarray)}
            lengths = {len(row) for row in X if isinstance(row, list | tuple)}
            return not (len(shapes) > 1 or len(lengths) > 1 or any(len(shape) > 1 for shape in shapes))
        return True

    def _finite(self) -> bool | Literal["allow-nan"]:
        return "allow-nan" if self.missing == "mask" else True

    def _spec(
        self, cases: Cases, preparation: Preparation, num_classes: int, earlier: SignalClassifier | None
    ) -> ClassifierSpec:
        if self.positions not in POSITIONS:
            raise ValueError(f"`positions` must be one of {', '.join(POSITIONS)}, but is {self.positions!r}")
        longest = int(cases.lengths.max())
        return ClassifierSpec(
            num_classes,
            preparation.num_features,
            d_model=self.d_model,
            num_heads=self.num_heads,
            d_ff=self.d_ff or 4 * self.d_model,
            layers=self.layers,
            positions=POSITIONS[self.positions](),
            # a trained table has no rows for places that no case of the training reached
            max_len=(longest if self.positions == "learned" else max(1024, 2 * longest))
            if earlier is None
            else earlier.model.spec.max_len,
            convolutions=self.convolutions,
            window=self.window,
            stride=self.window if self.stride is None else self.stride,
            readout=self.readout,
            residual=self.residual,
            dropout=Dropout(embedding=self.dropout, residual=self.dropout),
        )

    def _options(self, num_train: int, seed: int) -> TrainingOptions:
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1, but is {self.batch_size}")
        a_pass = -(-num_train // self.batch_size)
        updates = self.updates or min(max(PASSES * a_pass, FEWEST), MOST)
        return TrainingOptions(
            updates=updates,
            patience=self.patience,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            warmup=max(updates // 10, 1) if self.warmup is None else self.warmup,
            label_smoothing=self.label_smoothing,
            validate_every=max(a_pass, 20),
            save_every=updates,
            keep_last=1,
            seed=seed,
        )

    def _train(
        self,
        model: SequenceClassifier,
        batches: SignalBatches,
        valid: SignalBatches | None,
        options: TrainingOptions,
        class_weights: list[float] | None,
    ) -> None:
        history: list[dict[str, Any]] = []

        def keep(event: str, facts: Mapping[str, Any]) -> None:
            if event in ("update", "validation"):
                history.append({"event": event, **facts})

        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = fit(
                    model,
                    batches,
                    options,
                    folder=folder,
                    valid=valid,
                    class_weights=class_weights,
                    observers=[keep, *([Progress(unit="case")] if self.verbose else [])],
                )
            except InterruptedRun:
                raise KeyboardInterrupt from None
        if outcome.reason == "terminated":  # heard while training, and not meant for this fit alone
            signal.raise_signal(signal.SIGTERM)
        self.history_ = history
        self.n_updates_ = outcome.update

    def _class_weights(self, labels: Indices, classes: npt.NDArray[Any]) -> list[float] | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, Mapping):
            wanted: Any = [self.class_weight.get(label, 1.0) for label in classes.tolist()]
        elif self.class_weight == "balanced":
            wanted = "balanced"
        else:
            raise ValueError(f"`class_weight` must be 'balanced' or label -> weight, but is {self.class_weight!r}")
        return weights_of_classes(labels, len(classes), wanted)


def _cases(X: Any) -> Cases:
    try:
        return as_cases(X)
    except (TypeError, ValueError) as error:
        if isinstance(error, ShapeError):
            raise
        raise ShapeError(f"X cannot be taken as sequences of numbers: {error}") from None


def _is_json(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return value is None or type(value) in (bool, int, float, str)
