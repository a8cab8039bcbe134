"""From a file of signals to a label for each case, and to a page that shows what in the signals counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.inspection.report import SignalSection, SignalView, render_page
from regard.runs.evaluating.evaluate_classifier import layout_of, recipe_of
from regard.runs.translating.output import write_result
from regard.signals.cases import Cases
from regard.signals.classifier import SignalClassifier
from regard.signals.explanation import Explanation, explain
from regard.signals.readers import read_signals

_PART = 1024
"""Cases classified before their answers are told: what is mapped need not fit in memory."""

_NOTE = (
    "Gradient × input: how the score of the answer would fall if the value were that of the mean; blue speaks for the "
    "answer, orange against it. Attention: how much each frame counts in what is classified. Neither proves a cause."
)


def read_cases(classifier: SignalClassifier, path: str | Path, said: Mapping[str, str | None] | None = None) -> Cases:
    """Return the cases of a file; labels are left aside, and need not be there.

    Args:
        classifier: what the cases are for.
        path: the file.
        said: how it is laid out, as for `layout_of`.

    Raises:
        DataError: the file cannot be used.
    """
    layout = layout_of(recipe_of(classifier), path, said)
    if not (said or {}).get("labels") and layout.labels is not None:
        # a name tells a column of labels; a number may be that of a value, where there are no labels
        perhaps = () if layout.labels.isdecimal() else (layout.labels,)
        layout = replace(layout, labels=None, perhaps=(*layout.perhaps, *perhaps))
    return read_signals(path, layout, labelled=False).cases


def answers(classifier: SignalClassifier, cases: Cases, *, jsonl: bool = False) -> Iterator[str]:
    """Yield a line a case, in order: its label, or JSON with the probability of every label.

    Raises:
        ShapeError: a case cannot be used.
    """
    names = [str(label) for label in classifier.classes]
    for start in range(0, len(cases), _PART):
        for row in classifier.probabilities(cases, np.arange(start, min(start + _PART, len(cases)))):
            label = names[int(row.argmax())]
            shares = {name: round(float(share), 6) for name, share in zip(names, row, strict=True)}
            yield json.dumps({"label": label, "probabilities": shares}, ensure_ascii=False) if jsonl else label


def write_explanations(classifier: SignalClassifier, cases: Cases, path: str | Path, *, first: int) -> int:
    """Write an HTML page of the first cases, each with its weights over time, and return how many they are.

    Raises:
        ShapeError: a case cannot be used.
    """
    found = explain(classifier, cases.subset(np.arange(min(first, len(cases)))))
    views = [_view(index, explanation) for index, explanation in enumerate(found)]
    page = render_page("Signals, and what counted in them", [SignalSection(views, _NOTE)])
    write_result(path, page.encode())
    return len(views)


def _view(index: int, explanation: Explanation) -> SignalView:
    views = {"gradient × input": explanation.influence.tolist()}
    if explanation.attention is not None:
        views["attention"] = [explanation.attention.tolist()]
    answer = f"{explanation.label}, with probability {explanation.probability:.3f}"
    return SignalView(f"case {index}", answer, explanation.signal.tolist(), views)
