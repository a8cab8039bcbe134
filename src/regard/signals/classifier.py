"""How is a trained classifier of signals used? Sequences in, the probability of each class out, in the order given.

::

    model/
      config.json           format_version, spec, preparation, classes, recipe
      model.safetensors     the weights
      README.md             the model card, free to be changed
      manifest.json         SHA-256 of all but the card

Axes: n cases, K classes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.bundle import FORMAT_VERSION, check_version, refuse_to_replace, with_weights
from regard.errors import DamagedError, FolderError, InputError, RecipeError, ShapeError
from regard.folders import model_folder
from regard.models import ClassifierSpec, SequenceClassifier, build_classifier, classifier_spec_from_dict, spec_to_dict
from regard.models.specs import Learned, NoPositions, RelativeBias
from regard.modes import evaluation_mode
from regard.nn import num_windows
from regard.plural import plural
from regard.signals.batches import padded
from regard.signals.cases import Indices, as_cases
from regard.signals.labels import can_store
from regard.signals.preparation import Floats, Preparation
from regard.storage import open_sealed, seal
from regard.training import tensor_bytes

BATCH_FRAMES = 32_768
"""Frames classified together, padding included."""

_CONFIG, _WEIGHTS, _CARD = "config.json", "model.safetensors", "README.md"


class SignalClassifier:
    """A model, what is done to signals before it reads them, and the labels that its classes stand for.

    Args:
        model: in any mode; while classifying it is in evaluation mode, and afterwards each part in its own again.
        preparation: fitted when the model was trained.
        classes: [K] labels: numbers, texts or booleans.
        recipe: the tables or parameters that made the model, as JSON values.
    """

    def __init__(
        self,
        model: SequenceClassifier,
        preparation: Preparation,
        classes: npt.NDArray[Any],
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.preparation = preparation
        self.classes = classes
        self.recipe = recipe or {}

    def __call__(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each case, [n]; of equally probable ones the first."""
        labels: npt.NDArray[Any] = self.classes[self.probabilities(X).argmax(axis=1)]
        return labels

    def probabilities(self, X: Any, rows: Indices | None = None) -> Floats:
        """Return the probability of each class, [n, K], in the order of ``classes``.

        On the processor it is computed in float64, so that a case's neighbours cannot be seen in its digits.

        Args:
            X: [n, L], [n, C, L], a list of [L] or [C, L] of any lengths, or ``Cases``.
            rows: which of them, in the order wanted; left out, all.

        Raises:
            ShapeError: X is none of these, has other channels, is too long, or holds what the preparation refuses.
        """
        cases = as_cases(X)
        device = next(self.model.parameters()).device
        # one that is not trained any more, so that the caller's keeps its dtype
        model = copy.deepcopy(self.model).double() if device.type == "cpu" else self.model
        rows = np.arange(len(cases)) if rows is None else rows
        check_lengths(self.model.spec, cases.lengths, rows)
        found = np.empty((len(rows), len(self.classes)))
        with torch.no_grad(), evaluation_mode(model):
            for places in _batches(cases.lengths[rows]):
                frames, lengths = padded(cases, rows[places], self.preparation)
                frames = frames.to(device, next(model.parameters()).dtype)
                logits = model(frames, None if lengths is None else lengths.to(device))
                found[places] = logits.cpu().double().softmax(dim=1).numpy()
        return found

    def save(self, folder: str | Path) -> None:
        """Write a model folder; a model already there is replaced.

        Raises:
            InputError: the labels are objects that no file can hold without pickle, or the folder holds other things.
            RegardError: the system refused.
        """
        refuse_to_replace(folder)
        files = {_CONFIG: self.config(), _WEIGHTS: tensor_bytes(self.model)}
        seal(folder, files, loose={_CARD: self._card().encode()})

    def config(self) -> bytes:
        """Return everything but the weights, as the ``config.json`` of the model folder.

        Raises:
            InputError: the labels are objects that no file can hold without pickle.
        """
        config = {
            "format_version": FORMAT_VERSION,
            "spec": spec_to_dict(self.model.spec),
            "preparation": asdict(self.preparation),
            "classes": _labels_to_json(self.classes),
            "recipe": self.recipe,
        }
        return json.dumps(config, indent=1, ensure_ascii=False).encode() + b"\n"

    def _card(self) -> str:
        spec, count = self.model.spec, sum(parameter.numel() for parameter in self.model.parameters())
        names = [str(label) for label in self.classes[:20]] + (["…"] if len(self.classes) > 20 else [])
        return f"""# A classifier of signals made with Regard

A Transformer encoder of {plural(spec.layers, "layer")} and width {spec.d_model} with {count:,} parameters. It puts \
sequences of {plural(self.preparation.channels, "channel")}, up to {plural(spec.max_len, "frame")} long, \
into {plural(len(self.classes), "class", "classes")}: {", ".join(names)}.

```console
$ regard classify FOLDER signals.npz
```

```python
from regard.signals import load_classifier

classifier = load_classifier("FOLDER")
classifier.probabilities(X)
```

`config.json` holds the sizes, the standardisation, the labels and the recipe; `manifest.json` the SHA-256 of every \
file but this one.

To fill in: what it was trained on and under which licence, what it is for, how good it is, what it must not do.
"""


def check_lengths(spec: ClassifierSpec, lengths: Indices, rows: Indices | None = None) -> None:
    """Refuse cases that go on behind the last place that the positions of a model know.

    Args:
        spec: of the model.
        lengths: frames of every case.
        rows: which cases are meant; left out, all.

    Raises:
        ShapeError: one does, which is named.
    """
    rows = np.arange(len(lengths)) if rows is None else rows
    if not len(rows):
        return
    longest = int(rows[lengths[rows].argmax()])
    needed, known = (num_windows(length, spec.window, spec.stride) for length in (int(lengths[longest]), spec.max_len))
    if needed <= known or isinstance(spec.positions, RelativeBias | NoPositions):
        return
    reach = plural(spec.max_len, "frame")
    raise ShapeError(
        f"case {longest} has {plural(int(lengths[longest]), 'frame')}, but "
        + (
            f"positions are learned up to {reach}, the longest case of training; use sinusoidal or rotary positions"
            if isinstance(spec.positions, Learned)
            else f"the model reads up to {reach}; train it on longer cases too, or shorten this one"
        )
    )


def load_classifier(folder: str | Path, device: str | torch.device = "cpu") -> SignalClassifier:
    """Open the model folder of a classifier, or a run folder with a finished one in it.

    Raises:
        FolderError: there is no model, or it is not a classifier.
        DamagedError: a file is not what was sealed; the message names it.
    """
    folder = model_folder(folder)
    sealed = open_sealed(folder)
    return from_config(
        sealed.read(_CONFIG),
        folder / _CONFIG,
        lambda spec: with_weights(lambda: build_classifier(spec), sealed.read(_WEIGHTS), folder).to(device),
    )


def from_config(
    content: bytes, path: Path, make: Callable[[ClassifierSpec], SequenceClassifier] = build_classifier
) -> SignalClassifier:
    """Return the classifier that a ``config.json`` describes.

    Args:
        content: of the file.
        path: where it is, for messages.
        make: gives the model; left out, one with its first weights.

    Raises:
        FolderError: it describes no classifier.
        DamagedError: it cannot be used.
    """
    try:
        config = json.loads(content)
        check_version(config, path)
        if "classes" not in config:
            raise FolderError(f"{path.parent} holds no classifier; `regard translate` and regard.load use it")
        spec = classifier_spec_from_dict(config["spec"])
        stored = config["preparation"]
        preparation = Preparation(**{**stored, "mean": tuple(stored["mean"]), "scale": tuple(stored["scale"])})
        classes = np.array(config["classes"]["values"], dtype=config["classes"]["dtype"])
        if len(classes) != spec.num_classes or preparation.num_features != spec.num_features:
            raise ValueError("sizes differ")
        recipe = dict(config["recipe"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = str(error) if isinstance(error, RecipeError) else "it does not describe a classifier"
        raise DamagedError(f"{path} cannot be used: {what}") from None
    return SignalClassifier(make(spec).eval(), preparation, classes, recipe)


def _labels_to_json(classes: npt.NDArray[Any]) -> dict[str, Any]:
    if not can_store(classes):
        raise InputError("labels can be stored if they are numbers, texts or booleans; map others to one of these")
    return {"dtype": classes.dtype.name if classes.dtype.kind != "U" else "str", "values": classes.tolist()}


def _batches(lengths: Indices) -> list[Indices]:
    """Return the cases of each batch: neighbours in length, as many as fit the budget of frames."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = lengths[order[start:]]
        fits = np.flatnonzero(longest * np.arange(1, len(longest) + 1) <= BATCH_FRAMES)
        end = start + max(1, int(fits[-1]) + 1 if len(fits) else 1)
        batches.append(order[start:end])
        start = end
    return batches
