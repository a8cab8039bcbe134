"""What in a signal made a classifier answer as it did? Two views over time, of which neither is a proof.

Gradient × input says how the answer's score would change if a value shrank to the mean of training (Shrikumar et al.
2016); the weights of attention pooling say how much each frame counts in the vector that is classified.

Axes: C channels, L frames, F numbers of a frame, K classes, H heads.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.models import ClassifierSpec
from regard.nn import AttentionReadout
from regard.signals.cases import as_cases
from regard.signals.classifier import SignalClassifier, check_lengths
from regard.signals.preparation import Floats

if TYPE_CHECKING:
    from regard.signals.estimator import TransformerClassifier


@dataclass(frozen=True)
class Explanation:
    """One case and why it was put where it was.

    Attributes:
        label: the answer.
        probability: that the model gave it.
        signal: [C, L] real channels, as given.
        influence: [C, L] gradient × input: above 0 speaks for the answer.
        attention: [L] weights of attention pooling, mean over the heads, summing to 1; None for other readouts.
    """

    label: str
    probability: float
    signal: Floats
    influence: Floats
    attention: Floats | None


def explain(classifier: SignalClassifier | TransformerClassifier, X: Any) -> list[Explanation]:
    """Return an explanation of each case's answer.

    Args:
        classifier: whose answer; of an estimator, that of what it learned.
        X: cases, as `SignalClassifier.probabilities` takes them.

    Raises:
        ShapeError: X cannot be classified.
    """
    classifier = classifier if isinstance(classifier, SignalClassifier) else classifier.classifier_
    cases = as_cases(X)
    check_lengths(classifier.model.spec, cases.lengths)
    model = copy.deepcopy(classifier.model).cpu().double().eval()
    heard: list[Tensor] = []
    if isinstance(model.readout, AttentionReadout):
        model.readout.attention.listen(heard.append)  # to a copy, which is thrown away
    preparation, found = classifier.preparation, []
    for index in range(len(cases)):
        raw = cases[index]
        frames = torch.from_numpy(preparation.frames(preparation.scaled(raw))).double()[None]
        frames.requires_grad_()
        heard.clear()
        logits = model(frames)[0]  # [K]
        answer = int(logits.argmax())
        logits[answer].backward()
        assert frames.grad is not None  # the frames are a leaf
        influence = (frames.grad * frames.detach())[0].T.numpy()[: preparation.channels]
        found.append(
            Explanation(
                str(classifier.classes[answer]),
                float(logits.detach().softmax(dim=0)[answer]),
                np.nan_to_num(preparation.real(raw)),
                influence,
                _over_frames(heard[0][0].mean(dim=0)[0].detach().numpy(), model.spec, raw.shape[1]) if heard else None,
            )
        )
    return found


def _over_frames(weights: Floats, spec: ClassifierSpec, length: int) -> Floats:
    """Return the weights of windows [M] shared out evenly over the frames in them, [length]."""
    shared = np.zeros(length)
    for number, weight in enumerate(weights):
        within = slice(number * spec.stride, min(number * spec.stride + spec.window, length))
        shared[within] += weight / (within.stop - within.start)
    return shared
