"""A Transformer encoder as a classifier of scikit-learn: fit arrays, predict labels. Needs the extra ``signals``.

The work is done elsewhere: `regard.signals.fitting` and `regard.signals.streaming` learn, and what is learned is a
`regard.signals.classifier`.
"""

from __future__ import annotations

import signal
import tempfile
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from regard.device import best_device
from regard.errors import InterruptedRun, MissingExtraError
from regard.models import SequenceClassifier, build_classifier
from regard.protocols import Observer
from regard.signals.batches import Augment, SignalBatches
from regard.signals.cases import Cases, Indices
from regard.signals.classifier import SignalClassifier, check_lengths, load_classifier
from regard.signals.estimator_choices import choices_of, model_of, storable, training_of, weights_of
from regard.signals.estimator_input import classes_of, classes_of_parts, learnable, readable
from regard.signals.fitting import fit, hold_out, of_no_run, take_over
from regard.signals.pace import BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY
from regard.signals.preparation import Floats, Missing, Preparation, Scaling
from regard.signals.streaming import Stream, learn_part
from regard.signals.verbose import tell_part, tellers
from regard.training import TrainingOptions
from regard.training.random_state import kept_random_state

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise MissingExtraError("scikit-learn", "signals") from None


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
            and only the rows of new ones start afresh. See also `partial_fit`.
        random_state: a number makes ``fit`` repeatable.
        device: ``cpu``, ``cuda``, ``mps``; ``auto`` takes the first that is there, from the end.
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
        batch_size: int = BATCH_SIZE,
        learning_rate: float = LEARNING_RATE,
        schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "noam"] = "cosine",
        warmup: int | None = None,
        label_smoothing: float = 0.1,
        weight_decay: float = WEIGHT_DECAY,
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

        Warns:
            UserWarning: a channel is constant in the training part, or the labels cannot be saved.

        Raises:
            ValueError: X or y cannot be used, or a parameter.
            TypeError: X is sparse, or holds objects, or a parameter is of a type that it cannot have.
        """
        chosen = choices_of(self)
        device = best_device(chosen.device)
        cases, y = learnable(self, X, y, reset=True)
        classes = classes_of(y)
        labels = np.searchsorted(classes, y)
        seed = self._seed()
        train, valid = np.arange(len(cases)), None
        if chosen.patience is not None:
            train, valid = hold_out(labels, chosen.validation_fraction, seed)
        earlier: SignalClassifier | None = getattr(self, "classifier_", None) if chosen.warm_start else None
        if earlier is None:
            preparation = chosen._prepared(cases, train)
        else:
            preparation = earlier.preparation
            check_lengths(earlier.model.spec, cases.lengths)
        if valid is not None:  # before time is spent on what cannot be validated
            preparation.check(cases, valid)
        options = training_of(chosen, len(train), seed)
        with kept_random_state():
            torch.manual_seed(seed)
            model = build_classifier(model_of(chosen, cases, preparation, len(classes), earlier))
            if earlier is not None:
                take_over(model, classes, earlier.model, earlier.classes)
            self._train(
                model.to(device),
                chosen._batches(cases, train, labels, preparation, seed),
                None if valid is None else chosen._batches(cases, valid, labels, preparation, seed, learn=False),
                options,
                weights_of(chosen, labels[train], classes),
            )
        self.classes_ = classes
        self.classifier_ = SignalClassifier(model.eval(), preparation, classes)
        self._stream = Stream()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> TransformerClassifier:
        """Learn from these cases once, and go on from what was learned before, by `fit` or by parts.

        Standardisation, and the places of trained positions, are those of the first part. The learning rate rises over
        ``warmup`` updates, 30 by default, and then stays where the schedule is one that falls towards an end. The
        optimiser remembers the parts before, but not a `fit`, and not what was before `save` and `load`.

        Args:
            X: cases.
            y: their labels.
            classes: all labels that there will be; needed on the first call.

        Raises:
            ValueError: X, y or classes cannot be used, or a parameter.
            TypeError: X is sparse, or holds objects, or a parameter is of a type that it cannot have.
        """
        chosen = choices_of(self)
        device = best_device(chosen.device)
        earlier: SignalClassifier | None = getattr(self, "classifier_", None)
        cases, y = learnable(self, X, y, reset=earlier is None)
        known = classes_of_parts(classes, None if earlier is None else earlier.classes)
        if strange := sorted({str(label) for label in y[~np.isin(y, known)].tolist()}):
            raise ValueError(f"y holds {strange[0]}, which is not among the classes: {', '.join(map(str, known[:20]))}")
        if isinstance(chosen.class_weight, str):
            raise ValueError(
                f"class_weight={chosen.class_weight!r} is not supported by partial_fit, which never sees all cases; "
                "give label -> weight"
            )
        rows, labels, seed = np.arange(len(cases)), np.searchsorted(known, y), self._seed()
        stream: Stream = getattr(self, "_stream", Stream())
        with kept_random_state():
            if earlier is None:
                preparation = chosen._prepared(cases, rows)
                torch.manual_seed(seed)
                model = build_classifier(model_of(chosen, cases, preparation, len(known), None))
                earlier = SignalClassifier(model.to(device), preparation, known)
            check_lengths(earlier.model.spec, cases.lengths)
            with of_no_run():
                events = learn_part(
                    earlier.model,
                    chosen._batches(cases, rows, labels, earlier.preparation, seed),
                    training_of(chosen, len(cases), seed, parts=True),
                    stream,
                    weights_of(chosen, np.arange(len(known)), known),  # the same for all parts, whatever is in them
                )
        if chosen.verbose:
            tell_part(stream.parts, len(cases), events)
        earlier.model.eval()
        self.classes_, self.classifier_, self._stream = known, earlier, stream
        self.history_ = [*getattr(self, "history_", ()), *events]
        self.n_updates_ = getattr(self, "n_updates_", 0) + len(events)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each case, [n]."""
        check_is_fitted(self)
        labels: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, [n, K], in the order of ``classes_``."""
        check_is_fitted(self)
        return self.classifier_.probabilities(readable(self, X))

    def save(self, folder: str | Path) -> None:
        """Write a model folder, which also ``regard classify`` and `regard.signals.load_classifier` read.

        Parameters that are objects (``augment``, a generator as ``random_state``) are not stored.
        """
        check_is_fitted(self)
        recipe = {"estimator": storable(self), "n_features_in": getattr(self, "n_features_in_", None)}
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

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _prepared(self, cases: Cases, rows: Indices) -> Preparation:
        warn = partial(warnings.warn, category=UserWarning, stacklevel=5)  # at the line that called `fit`
        return Preparation.fit(cases, rows, iq=self.iq, missing=self.missing, scaling=self.scaling, say=warn)

    def _batches(
        self, cases: Cases, rows: Indices, labels: Indices, prepared: Preparation, seed: int, *, learn: bool = True
    ) -> SignalBatches:
        augment = self.augment if learn else None
        return SignalBatches(
            cases, rows, labels, prepared, batch_size=self.batch_size, seed=seed, shuffle=learn, augment=augment
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

        observers: list[Observer] = [keep]
        if self.verbose:
            observers += tellers(model, len(batches.rows), options.updates or 0)
        with tempfile.TemporaryDirectory() as folder, of_no_run():
            try:
                outcome = fit(
                    model,
                    batches,
                    options,
                    folder=folder,
                    valid=valid,
                    class_weights=class_weights,
                    observers=observers,
                )
            except InterruptedRun:
                raise KeyboardInterrupt from None
        if outcome.reason == "terminated":  # heard while training, and not meant for this fit alone
            signal.raise_signal(signal.SIGTERM)
        self.history_ = history
        self.n_updates_ = outcome.update
