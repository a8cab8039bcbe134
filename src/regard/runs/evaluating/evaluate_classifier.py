"""How good is a classifier of signals on a test set, by class and by group, and how far from the best possible?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.device import best_device
from regard.errors import RecipeError
from regard.evaluation import ClassificationReport, classification_report
from regard.inspection import figures
from regard.runs.recipes.signal_recipe import SignalData, SignalRecipe, check_signals
from regard.runs.training.prepare_signals import class_numbers, evaluation_set
from regard.runs.translating.output import refuse_output_folder, write_result
from regard.signals.classifier import SignalClassifier, load_classifier
from regard.signals.readers import Layout, SignalSet, naming, read_signals
from regard.signals.synthetic import Drawn, Modulations


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation found.

    Attributes:
        report: of the classifier.
        ceiling: of the maximum-likelihood classifier on the same cases, where it was asked for.
    """

    report: ClassificationReport
    ceiling: ClassificationReport | None = None

    def lines(self) -> list[str]:
        """Return the figures as lines of text; of the ceiling only accuracies."""
        if self.ceiling is None:
            return self.report.lines()
        of_groups = [f"{group.column} {group.value}: {group.accuracy:.2f}" for group in self.ceiling.groups]
        told = f"accuracy {self.ceiling.accuracy:.2f}" + (f" ({', '.join(of_groups)})" if of_groups else "")
        return [*self.report.lines(), "", f"maximum likelihood on the same cases: {told}"]


def evaluate_classifier(
    model: str | Path | SignalClassifier,
    *,
    signals: str | Path | None = None,
    said: Mapping[str, str | None] | None = None,
    groups: tuple[str, ...] = (),
    data: str | Path | None = None,
    ceiling: bool = False,
    plots: str | Path | None = None,
    device: str = "auto",
) -> Evaluated:
    """Classify a test set and measure the result.

    Args:
        model: a model folder, a run folder, or a classifier.
        signals: a file of labelled signals; left out, the test set of the recipe.
        said: how that file is laid out, as for `layout_of`.
        groups: further arrays or columns by which to tell accuracies apart, beside those of the recipe, which a file
            need not have.
        data: the folder where relative paths of the recipe start; left out, the current one.
        ceiling: measure the maximum-likelihood classifier of the recipe's generator as well.
        plots: a folder for pictures: the confusion matrix, calibration, and accuracy by each group.
        device: where to compute.

    Raises:
        InputError: a file, option or the model cannot be used.
    """
    if plots is not None:
        refuse_output_folder(Path(plots))
    classifier = model if isinstance(model, SignalClassifier) else load_classifier(model, best_device(device))
    recipe = recipe_of(classifier)
    options = recipe.data if recipe else None
    names = [str(label) for label in classifier.classes]
    found = _evaluation_set(recipe, signals, said, groups, Path(data or ""))
    assert found.labels is not None  # asked for
    where = str(signals or (options and options.test) or "the test set")
    labels = class_numbers(found.labels, _told_as(found.labels, options, names), where)
    with naming(where):
        probabilities = classifier.probabilities(found.cases)
    report = classification_report(labels, probabilities, names, groups=found.groups)
    best = _ceiling(options, found, labels, names) if ceiling else None
    if plots is not None:
        draw(report, Path(plots), best)
    return Evaluated(report, best)


def recipe_of(classifier: SignalClassifier) -> SignalRecipe | None:
    """Return the recipe that made a classifier; None for one that the estimator fitted."""
    tables = classifier.recipe.get("recipe")
    return None if tables is None else check_signals(tables, "the recipe of the model")


def layout_of(recipe: SignalRecipe | None, signals: str | Path, said: Mapping[str, str | None] | None) -> Layout:
    """Return where things are in a file that a model meets.

    Args:
        recipe: of the model; what it says holds as far as the format of the file knows it, groups where the file has
            them.
        signals: the file.
        said: ``x``, ``labels`` and ``lengths``, which win over the recipe; None says nothing.
    """
    layout = recipe.data.layout_of(str(signals)) if recipe else Layout()
    given: dict[str, Any] = {key: name for key, name in (said or {}).items() if name is not None}
    return replace(layout, groups=(), perhaps=layout.groups, **given)


def draw(report: ClassificationReport, folder: Path, ceiling: ClassificationReport | None = None) -> None:
    """Write the pictures of a report into ``folder``, as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [figure.name for figure in report.classes]
    pictures = {"confusion": figures.confusion_matrix(report.confusion, names)}
    points = [(bin.confidence, bin.accuracy, bin.cases) for bin in report.bins]
    pictures["calibration"] = figures.calibration(points)
    for column in dict.fromkeys(group.column for group in report.groups):
        lines = {"model": report, **({"maximum likelihood": ceiling} if ceiling else {})}
        curves = {
            name: {group.value: group.accuracy for group in of.groups if group.column == column}
            for name, of in lines.items()
        }
        plain = re.sub(r"[^\w.+=-]", "_", column)  # a column has any name, which must not lead out of the folder
        pictures[f"accuracy-by-{plain}"] = figures.accuracy_by_group(column, curves)
    for name, picture in pictures.items():
        write_result(folder / f"{name}.png", figures.image_bytes(picture))


def _evaluation_set(
    recipe: SignalRecipe | None,
    signals: str | Path | None,
    said: Mapping[str, str | None] | None,
    groups: tuple[str, ...],
    folder: Path,
) -> SignalSet:
    if signals is not None:
        return read_signals(signals, layout_of(recipe, signals, said).with_groups(groups))
    if recipe is None:
        raise RecipeError("the model has no recipe that names a test set; give a file of signals")
    return evaluation_set(recipe.data, folder, recipe.training.seed, groups)


def _told_as(labels: Sequence[str], options: SignalData | None, names: list[str]) -> list[str]:
    """Return what the classes are called in a file: a generator of signals numbers them from 0, nothing else does."""
    numbers, told = [str(number) for number in range(len(names))], set(labels)
    return numbers if options and options.generator and told <= set(numbers) and told.isdisjoint(names) else names


def _ceiling(options: SignalData | None, found: SignalSet, labels: Any, names: list[str]) -> ClassificationReport:
    generator = options.generator if options else None
    if generator is None:
        raise RecipeError(
            "the best possible is known for generated signals alone: those of data.tones, data.modulations"
        )
    if list(generator.classes) != names:
        raise RecipeError("the classes of the model are not those of the generator")
    cases = found.cases
    X = np.stack([cases[index] for index in range(len(cases))])  # [n, C, L]
    groups = {name: np.array([float(value) for value in of]) for name, of in found.groups.items()}
    if isinstance(generator, Modulations):
        if "snr" not in groups:
            raise RecipeError('the ceiling needs the SNR of each case: data.groups = ["snr"]')
        X = X.astype(np.float64) if X.dtype.kind != "c" else X
        X = X[:, 0] + 1j * X[:, 1] if X.shape[1] == 2 else X[:, 0]
    else:
        X = X[:, 0]
    chosen = generator.most_likely(Drawn(X, labels, groups))
    return classification_report(labels, np.eye(len(names))[chosen], names, groups=found.groups)
