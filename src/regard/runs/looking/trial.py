"""One training of a recipe, of text or of signals: how large is its model, and how good on cases it has not learned?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.errors import InterruptedRun
from regard.modes import evaluation_mode
from regard.protocols import Observer
from regard.runs.evaluating.evaluate import evaluate
from regard.runs.evaluating.evaluate_classifier import evaluate_classifier
from regard.runs.recipes.plan import plan
from regard.runs.recipes.signal_plan import plan_signals
from regard.runs.recipes.tables import is_of_signals, read_tables
from regard.runs.saying import say_nothing
from regard.runs.text_set import set_files
from regard.runs.training.folder import RunFolder
from regard.runs.training.prepare import prepare, read_text
from regard.runs.training.prepare_signals import prepare_signals
from regard.runs.training.train import train
from regard.runs.training.train_classifier import train_classifier
from regard.runs.training.validation import Validation
from regard.signals.classifier import SignalClassifier
from regard.signals.validation import FIGURES, ClassValidation
from regard.training import ClassObjective, Seq2SeqObjective
from regard.translator import Translator


def trial(recipe: Path, *, folder: RunFolder, data: Path, device: str, quiet: bool) -> tuple[int, Mapping[str, float]]:
    """Train, or go on; return the number of parameters, and the figures of the finished model.

    The model may be a mean of checkpoints that nobody has validated, so it is measured anew: on the validation set, and
    as ``test.…`` on the test set of the recipe.

    Raises:
        InterruptedRun: asked to stop; everything is saved.
    """
    reasons: list[str] = []

    def hear(event: str, facts: Mapping[str, Any]) -> None:
        if event == "ended":
            reasons.append(facts["reason"])

    observers: list[Observer] = [hear]
    trained: SignalClassifier | Translator
    if is_of_signals(read_tables(recipe)):
        trained = train_classifier(recipe, out=folder.path, data=data, device=device, quiet=quiet, observers=observers)
    else:
        trained = train(recipe, out=folder.path, data=data, device=device, quiet=quiet, observers=observers)
    if "terminated" in reasons:
        raise InterruptedRun("asked to stop; everything is saved, and the same command goes on from there")
    if isinstance(trained, SignalClassifier):
        figures = _of_signals(trained, recipe, data)
    else:
        figures = _of_text(trained, recipe, folder, data)
    return sum(parameter.numel() for parameter in trained.model.parameters()), figures


def _of_signals(classifier: SignalClassifier, recipe: Path, data: Path) -> dict[str, float]:
    asked = plan_signals(recipe, data=data)
    figures: dict[str, float] = {}
    valid = prepare_signals(asked, say_nothing).valid
    if valid is not None:
        objective = ClassObjective(classifier.model)
        with torch.no_grad(), evaluation_mode(objective):
            figures |= ClassValidation(valid, len(classifier.classes))(objective)
    options = asked.recipe.data
    if options.test is not None or options.generator is not None:
        report = evaluate_classifier(classifier, data=data).report
        figures |= {"test.loss": report.nll}
        figures |= {f"test.{name}": getattr(report, name) for name in FIGURES if name != "loss"}
    return figures


def _of_text(translator: Translator, recipe: Path, folder: RunFolder, data: Path) -> dict[str, float]:
    effective = folder.read_recipe()
    raw = read_text(plan(recipe, data=data), folder, say_nothing)
    prepared = prepare(effective, raw, folder, data, say_nothing)
    validation = Validation(prepared, effective.evaluation, effective.generation)
    objective = Seq2SeqObjective(translator.model, effective.training.label_smoothing)
    with torch.no_grad(), evaluation_mode(objective):
        figures = dict(validation(objective))
    if set_files(effective.data, "test", data) is not None:
        report = evaluate(translator, data=data).first
        figures |= {f"test.{figure.name}": figure.value for figure in report.figures}
    return figures
