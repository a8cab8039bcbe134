"""Is a model right? The checks of `regard.verification`, on a model folder or on a name in somebody's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from regard.bundle import load_bundle
from regard.errors import InputError
from regard.folders import is_classifier
from regard.models import build, build_classifier
from regard.runs.looking.subjects import is_code, made
from regard.signals.classifier import load_classifier
from regard.training import Seq2SeqObjective
from regard.verification import Report
from regard.verification import verify as verify_module


def verify(subject: str, *, checks: Sequence[str] = (), seed: int = 0) -> Report:
    """Run the checks of `regard.verify` on what ``subject`` names.

    Args:
        subject: a model or run folder; or ``package.module:name``, where the name is a module, its class, or a function
            that makes one without arguments, such as ``functools.partial(MyTransformer, vocab=100)``.
        checks: names of checks to run alone.
        seed: of the inputs.

    Raises:
        InputError: nothing of that name, or it is no ``torch.nn.Module``.
    """
    if not is_code(subject):
        if is_classifier(subject):
            classifier = load_classifier(subject).model
            return verify_module(
                classifier, rebuild=lambda: build_classifier(classifier.spec), checks=checks or None, seed=seed
            )
        model = load_bundle(subject).model
        return verify_module(
            model, rebuild=lambda: build(model.spec), loss=_training_loss, checks=checks or None, seed=seed
        )
    module, rebuild = made(subject)
    try:
        return verify_module(module, rebuild=rebuild, checks=checks or None, seed=seed)
    except SystemExit as left:
        raise InputError(f"{subject} ends the program when it is called: SystemExit: {left}") from left


def _training_loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
    total, count = Seq2SeqObjective(model, smoothing=0.1)(batch)
    return total, count
