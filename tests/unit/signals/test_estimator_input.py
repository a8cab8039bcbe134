"""What may be handed over: arrays, frames, tensors, and lists of them; which of these is a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.signals import as_cases
from regard.signals.fitting import hold_out
from regard.signals.synthetic import Tones
from unit.signals.toys import hasty

RNG = np.random.default_rng(3)
Y = [0, 1, 0, 1, 0]


class Frame:
    """Holds an array, and shows it to numpy alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values.astype(dtype or self.values.dtype)

    def __array_function__(self, func: Any, *_: Any) -> Any:
        raise TypeError(f"{func.__name__} is not for frames")


@pytest.mark.parametrize("kind", [np.asarray, Frame, torch.from_numpy])
@pytest.mark.parametrize("shape", [(7,), (2, 7)])
def test_a_list_of_arrays_may_have_any_length(kind: Any, shape: tuple[int, ...]) -> None:
    """Whether they happen to be equally long or not."""
    equal = [RNG.standard_normal(shape) for _ in Y]
    unequal = [row[..., : 3 + index] for index, row in enumerate(equal)]
    for rows in (equal, unequal, tuple(equal)):
        model = hasty(random_state=0).fit([kind(row) for row in rows], Y)
        assert not hasattr(model, "n_features_in_")
        other = [kind(row[..., :2]) for row in rows]
        found = model.predict_proba(other)
        plain = hasty(random_state=0).fit(list(rows), Y).predict_proba([row[..., :2] for row in rows])
        np.testing.assert_array_equal(found, plain)


def test_what_is_a_table_keeps_its_length() -> None:
    X = RNG.standard_normal((5, 7))
    for table in (X, X.tolist(), Frame(X), torch.from_numpy(X)):
        assert hasty().fit(table, Y).n_features_in_ == 7
    nested = RNG.standard_normal((5, 2, 7)).tolist()
    assert not hasattr(hasty().fit(nested, Y), "n_features_in_")


def test_frames_and_tensors_are_arrays() -> None:
    X = RNG.standard_normal((5, 3, 7))
    for given in (Frame(X), torch.from_numpy(X), [Frame(x) for x in X]):
        np.testing.assert_array_equal(as_cases(given)[2], X[2])
    with pytest.raises(ValueError, match="case 1 cannot be taken as an array of numbers"):
        as_cases([[1.0, 2.0], [[1.0], 2.0]])


@pytest.mark.parametrize("wrap", [lambda X: X, lambda X: X[:, None], list])
def test_the_remedy_is_the_same_for_all_shapes(wrap: Any) -> None:
    good, hole = RNG.standard_normal((5, 7)), RNG.standard_normal((5, 7))
    hole[3, 2] = np.nan
    model = hasty().fit(wrap(good), Y)
    for call in (lambda X: hasty().fit(X, Y), model.predict):
        with pytest.raises(ValueError, match=r"^case 3: Input X contains NaN; where `missing` is 'mask' such values"):
            call(wrap(hole))
        with pytest.raises(ValueError, match=r"^Complex data not supported; where `iq` is true"):
            call(wrap(good * 1j))


def test_what_is_validated_on_is_read_before_anything_is_learned() -> None:
    X = RNG.standard_normal((20, 7))
    made: list[int] = []
    model = hasty(patience=1, random_state=0, augment=lambda case, rng: made.append(1) or case)
    _, held = hold_out(np.arange(20) % 2, 0.1, model._seed())
    X[held[1], 2] = np.nan
    with pytest.raises(ValueError, match=f"^case {held[1]}: Input X contains NaN"):
        model.fit(X, np.arange(20) % 2)
    assert not made


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ("learned", "positions are learned up to 16 frames, the longest case of training; use sinusoidal or rotary"),
        ("rotary", "the model reads up to 1,024 frames; train it on longer cases"),
    ],
)
def test_cases_too_long_in_the_words_of_the_estimator(positions: str, words: str) -> None:
    drawn = Tones(length=16).draw(9, np.random.default_rng(0))
    model = hasty(positions=positions, warm_start=True).fit(list(drawn.X), drawn.y)
    long = [np.arange(5.0), np.arange(1100.0)]
    assert model.classifier_.probabilities(long, np.arange(0)).shape == (0, 3)  # none of them is meant
    calls = [model.predict, lambda X: model.fit(X, [0, 1]), lambda X: model.partial_fit(X, [0, 1])]
    for call in calls:
        with pytest.raises(ValueError, match=f"case 1 has 1,100 frames, but {words}"):
            call(long)


def test_channels_that_stand_still_are_named_once() -> None:
    X = RNG.standard_normal((5, 4, 7))
    X[:, 1], X[:, 3] = 17.0, np.nan
    with pytest.warns(UserWarning) as caught:
        hasty(missing="mask").fit(X, Y)
    told = [str(warning.message) for warning in caught]
    assert told == [
        "the training part holds only NaN in channel 3: nothing can be learned from it",
        "the training part is constant in channel 1: nothing can be learned from it",
    ]
    with pytest.warns(UserWarning, match="constant in Q of channel 0: nothing"):
        hasty(iq=True, scaling="case").partial_fit(X[:, 0] + 0j, Y, classes=[0, 1])


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_labels_that_cannot_be_saved_are_told_when_they_are_learned() -> None:
    days = np.array(["2021-03-01", "2021-03-02"], dtype="datetime64[D]")[Y]
    with pytest.warns(UserWarning, match=r"labels of type datetime64\[D\] can be learned, but not saved"):
        hasty().fit(RNG.standard_normal((5, 7)), days)


def test_objects_are_numbers_or_a_type_error() -> None:
    X = RNG.standard_normal((5, 2, 7)).astype(object)
    assert len(hasty().fit(X, Y).predict(X)) == 5
    X[0, 0, 0] = {}
    with pytest.raises(TypeError, match="X holds objects that are no numbers"):
        hasty().fit(X, Y)
