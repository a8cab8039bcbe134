"""The report of a classifier: worked by hand, and against scikit-learn."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn import metrics

from regard.errors import DataError, ShapeError
from regard.evaluation import classification_report


def test_by_hand() -> None:
    labels = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.1, 0.9]])
    report = classification_report(labels, probabilities, ["a", "b"], groups={"dB": ["10", "-5", "10", "-5"]})
    assert report.accuracy == 75
    assert report.balanced_accuracy == 75
    assert report.confusion == ((1, 1), (0, 2))
    first, second = report.classes
    assert (first.precision, first.recall, first.f1, first.cases) == (100, 50, pytest.approx(200 / 3), 2)
    assert (second.precision, second.recall, second.f1) == (pytest.approx(200 / 3), 100, 80)
    assert report.macro_f1 == pytest.approx((200 / 3 + 80) / 2)
    assert report.nll == pytest.approx(-(math.log(0.9) * 2 + math.log(0.4) + math.log(0.8)) / 4)
    # confidences 0.9, 0.6, 0.8, 0.9 fall in three bins: |90 - 100| twice, |60 - 0|, |80 - 100|
    assert report.calibration_error == pytest.approx((10 + 10 + 60 + 20) / 4)
    assert [(group.value, group.accuracy) for group in report.groups] == [("-5", 50), ("10", 100)]


def test_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=101)  # of five classes one never occurs
    probabilities = rng.dirichlet(np.ones(5), 101)
    report = classification_report(labels, probabilities, list("abcde"))
    predicted = probabilities.argmax(axis=1)
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert report.balanced_accuracy == pytest.approx(100 * metrics.balanced_accuracy_score(labels, predicted))
    assert report.macro_f1 == pytest.approx(100 * metrics.f1_score(labels, predicted, average="macro"))
    assert report.nll == pytest.approx(metrics.log_loss(labels, probabilities, labels=range(5)))
    assert np.array_equal(report.confusion, metrics.confusion_matrix(labels, predicted, labels=range(5)))
    assert report.classes[4].recall is None


def test_as_text_and_json() -> None:
    report = classification_report(
        np.array([0, 1, 1]), np.eye(3)[[0, 1, 2]], ["x", "long", "z"], groups={"who": ["b", "a", "b"]}
    )
    lines = report.lines()
    assert "accuracy 66.67" in lines
    assert "long      100.00   50.00   66.67      2" in lines
    assert "long  0     1  1" in lines
    assert [line for line in lines if line[:2] in ("a ", "b ")] == ["a       100.00      1", "b        50.00      2"]
    assert json.loads(report.to_json())["confusion"][1] == [0, 1, 1]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="nothing to evaluate"):
        classification_report(np.empty(0, dtype=np.int64), np.empty((0, 2)), ["a", "b"])
    with pytest.raises(ShapeError, match=r"must be \[2 cases, 2 classes\], but have shape \[2, 3\]"):
        classification_report(np.array([0, 1]), np.ones((2, 3)), ["a", "b"])
    with pytest.raises(ShapeError, match="'snr' has 1 value for 2 cases"):
        classification_report(np.array([0, 1]), np.eye(2), ["a", "b"], groups={"snr": ["1"]})
