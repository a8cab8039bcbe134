"""How good is a classifier? Accuracy by class and by group, what it confuses, and whether it knows how sure to be.

Axes: n cases, K classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, ShapeError
from regard.evaluation.metric import Floats
from regard.plural import plural

NUM_BINS = 15
"""Bins of confidence, all equally wide, for the calibration error (Guo et al. 2017, section 2)."""


@dataclass(frozen=True)
class ClassFigures:
    """How one class fares, in percent.

    Attributes:
        name: of the class.
        precision: of the cases put into it, how many belong there; None if none was.
        recall: of its cases, how many were found; None if there are none.
        f1: harmonic mean of the two: 2 hits / (cases + predictions); None if there are neither.
        cases: of this class.
    """

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    cases: int


@dataclass(frozen=True)
class GroupFigures:
    """How the cases of one group fare.

    Attributes:
        column: what they are grouped by.
        value: which group.
        accuracy: in percent.
        cases: in this group.
    """

    column: str
    value: str
    accuracy: float
    cases: int


@dataclass(frozen=True)
class Bin:
    """Cases of about the same confidence: the highest probability that the model gave.

    Attributes:
        confidence: mean, in percent.
        accuracy: in percent.
        cases: in this bin.
    """

    confidence: float
    accuracy: float
    cases: int


@dataclass(frozen=True)
class ClassificationReport:
    """What an evaluation of a classifier found, in percent unless told otherwise.

    Attributes:
        cases: how many.
        accuracy: cases put into the right class.
        balanced_accuracy: mean recall over the classes that occur.
        macro_f1: mean F1 over the classes that occur or were predicted.
        nll: mean negative log-probability of the right class, in nats.
        calibration_error: mean distance of confidence and accuracy over the bins, by their cases.
        classes: each of them.
        confusion: [K, K] cases by right class (down) and predicted class (across).
        bins: of confidence, those that hold cases.
        groups: each of them, column by column.
    """

    cases: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    nll: float
    calibration_error: float
    classes: tuple[ClassFigures, ...]
    confusion: tuple[tuple[int, ...], ...]
    bins: tuple[Bin, ...]
    groups: tuple[GroupFigures, ...] = ()

    def lines(self) -> list[str]:
        """Return the report as lines of text: figures, classes, the confusion matrix, groups."""
        lines = [
            f"cases {self.cases:,}",
            f"accuracy {self.accuracy:.2f}",
            f"balanced accuracy {self.balanced_accuracy:.2f}",
            f"macro-F1 {self.macro_f1:.2f}",
            f"calibration error {self.calibration_error:.2f}",
            f"negative log-likelihood {self.nll:.4f} nats",
            "",
        ]
        lines += _table(
            ["class", "precision", "recall", "F1", "cases"],
            [[c.name, _percent(c.precision), _percent(c.recall), _percent(c.f1), f"{c.cases:,}"] for c in self.classes],
        )
        names = [figures.name for figures in self.classes]
        counts = [[name, *map(str, row)] for name, row in zip(names, self.confusion, strict=True)]
        lines += ["", "right class down, predicted class across", *_table(["", *names], counts)]
        for column in dict.fromkeys(group.column for group in self.groups):
            of_column = [group for group in self.groups if group.column == column]
            rows = [[group.value, f"{group.accuracy:.2f}", f"{group.cases:,}"] for group in of_column]
            mean = sum(group.accuracy for group in of_column) / len(of_column)
            lines += ["", *_table([column, "accuracy", "cases"], [*rows, ["mean", f"{mean:.2f}", ""]])]
        return lines

    def to_json(self) -> str:
        """Return the whole as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def classification_report(
    labels: npt.NDArray[np.int64],
    probabilities: Floats,
    classes: Sequence[str],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> ClassificationReport:
    """Measure a classifier.

    Args:
        labels: [n] the right class of each case, by number.
        probabilities: [n, K] what the model gave; the highest is its answer, of equals the first.
        classes: the name of each class.
        groups: column name -> the group of each case.

    Raises:
        DataError: there are no cases.
        ShapeError: sizes do not fit.
    """
    n, K = len(labels), len(classes)
    if not n:
        raise DataError("there is nothing to evaluate: no case has a label")
    if probabilities.shape != (n, K):
        raise ShapeError(
            f"`probabilities` must be [{n} cases, {K} classes], but have shape {list(probabilities.shape)}"
        )
    predicted = probabilities.argmax(axis=1)
    right = predicted == labels
    confusion = np.zeros((K, K), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    hits, of_class, of_prediction = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    figures = tuple(
        ClassFigures(str(name), _share(hit, guessed), _share(hit, there), _share(2 * hit, there + guessed), there)
        for name, hit, there, guessed in zip(
            classes, hits.tolist(), of_class.tolist(), of_prediction.tolist(), strict=True
        )
    )
    bins = _bins(probabilities.max(axis=1), right)
    own = probabilities[np.arange(n), labels]
    return ClassificationReport(
        cases=n,
        accuracy=100 * float(right.mean()),
        balanced_accuracy=_mean(c.recall for c in figures),
        macro_f1=_mean(c.f1 for c in figures),
        nll=float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean()),
        calibration_error=sum(abs(b.confidence - b.accuracy) * b.cases for b in bins) / n,
        classes=figures,
        confusion=tuple(tuple(map(int, row)) for row in confusion),
        bins=bins,
        groups=tuple(figure for column, of in (groups or {}).items() for figure in _by_group(column, of, right)),
    )


def _by_group(column: str, of_cases: Sequence[str], right: npt.NDArray[np.bool_]) -> list[GroupFigures]:
    if len(of_cases) != len(right):
        raise ShapeError(f"the column {column!r} has {plural(len(of_cases), 'value')} for {plural(len(right), 'case')}")
    values = np.array([str(value) for value in of_cases])
    made = []
    for value in sorted(set(values.tolist()), key=_natural):
        own = right[values == value]
        made.append(GroupFigures(column, value, 100 * float(own.mean()), len(own)))
    return made


def _bins(confidence: Floats, right: npt.NDArray[np.bool_]) -> tuple[Bin, ...]:
    place = np.minimum((confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    return tuple(
        Bin(100 * float(confidence[own].mean()), 100 * float(right[own].mean()), int(own.sum()))
        for own in (place == number for number in np.unique(place))
    )


def _natural(value: str) -> tuple[float, str]:
    """Sort numbers by size and words after them."""
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(sum(known) / len(known))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of text: the first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in [head, *rows]
    ]
