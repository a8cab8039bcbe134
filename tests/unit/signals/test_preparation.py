"""From numbers to frames: fitted on the training part alone, the same for one case and for many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.errors import RecipeError, ShapeError
from regard.signals import cases as cases_module
from regard.signals.cases import Cases, as_cases
from regard.signals.preparation import Preparation

X = np.random.default_rng(0).normal(3, 2, (13, 2, 7))


def fitted(X: Any, rows: Any = None, **options: Any) -> Preparation:
    cases = as_cases(X)
    options = {"iq": False, "missing": "error", "scaling": "channel", **options}
    return Preparation.fit(cases, np.arange(len(cases)) if rows is None else rows, **options)


def test_mean_and_deviation_of_the_rows_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([2, 3, 5, 7, 11])
    whole = fitted(X, rows)
    np.testing.assert_allclose(whole.mean, X[rows].mean(axis=(0, 2)))
    np.testing.assert_allclose(whole.scale, X[rows].std(axis=(0, 2)))
    monkeypatch.setattr(cases_module, "CHUNK", 2)  # the sums of parts add up
    np.testing.assert_allclose(fitted(X, rows).scale, whole.scale)
    ragged = [x[:, : 3 + i % 4] for i, x in enumerate(X)]
    np.testing.assert_allclose(fitted(ragged).mean, np.concatenate(ragged, axis=1).mean(axis=1))


def test_far_from_zero_nothing_is_lost() -> None:
    far = X + 1e9
    np.testing.assert_allclose(fitted(far).scale, X.std(axis=(0, 2)), rtol=1e-6)  # 1e9 leaves 7 digits


def test_many_are_as_one() -> None:
    for options in ({}, {"scaling": "case"}, {"scaling": "none"}, {"iq": True}, {"iq": True, "scaling": "case"}):
        prepared = fitted(X, **options)
        many = prepared.frames(prepared.scaled(X))
        assert many.shape == (13, 7, 2)
        np.testing.assert_array_equal(many[3], prepared.frames(prepared.scaled(X[3])))


def test_each_case_by_itself() -> None:
    frames = Preparation(2, scaling="case").scaled(X)
    np.testing.assert_allclose(frames.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(frames.std(axis=-1), 1)


def test_i_and_q_keep_their_circle() -> None:
    z = np.exp(1j * np.linspace(0, 6, 7)) * 5 + np.zeros((4, 1))
    prepared = fitted(z, iq=True)
    assert prepared.mean == (0, 0)
    scaled = prepared.scaled(z[:1])
    np.testing.assert_allclose(np.hypot(*scaled), np.hypot(*scaled)[0])


def test_missing_values_read_the_mean_and_raise_a_flag() -> None:
    holes = X.copy()
    holes[:, 1, 2] = np.nan
    prepared = fitted(holes, missing="mask")
    assert prepared.num_features == 4
    np.testing.assert_allclose(prepared.mean[1], np.nanmean(holes[:, 1]))
    frames = prepared.frames(prepared.scaled(holes))
    assert frames[0, 2].tolist()[1:] == [0, 0, 1]
    assert (np.delete(frames[0, :, 3], 2) == 0).all()


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (X * 1j, {}, "Complex data not supported"),
        (X[:, :1], {"iq": True}, "in pairs, I and Q, but there are 1"),
        (X * np.inf, {}, "infinity"),
    ],
)
def test_refused(X: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        fitted(X, **options)


@pytest.mark.usefixtures("unchecked")
def test_other_channels_are_refused() -> None:
    with pytest.raises(ShapeError, match="have 1 channel, but those of training had 2"):
        fitted(X).scaled(X[0, :1])
    with pytest.raises(RecipeError, match="`scaling` must be one of channel, case, none"):
        Preparation(1, scaling="z")
    with pytest.raises(ShapeError, match="too large"):
        Preparation(1, scaling="none").frames(np.full((1, 3), 1e39))


@pytest.mark.usefixtures("unchecked")
def test_cases_are_indexed_and_cut() -> None:
    cases = Cases(X, np.arange(1, 8).repeat(2)[:13])
    assert cases[2].shape == (2, 2)
    assert cases.stacked(np.array([2, 3])).shape == (2, 2, 2)
    assert cases.stacked(np.array([1, 2])) is None
    assert cases.subset(np.array([12, 0])).lengths.tolist() == [7, 1]
