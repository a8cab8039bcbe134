"""What the parameters of the estimator may be, each by type and range, and what is said of others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import TransformerClassifier
from regard.signals import estimator_choices
from unit.signals.toys import hasty

X = np.arange(60.0).reshape(4, 3, 5)
Y = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 7}, "`num_heads` must divide d_model = 7, but is 2"),
        ({"positions": "rotatory"}, "`positions` must be one of sinusoidal, learned"),
        ({"missing": "drop"}, "`missing` must be one of error, mask"),
        ({"batch_size": 0}, "`batch_size` must be a whole number, at least 1"),
        ({"learning_rate": -1.0}, "`learning_rate` must be above 0"),
        ({"class_weight": "balance"}, "`class_weight` must be .* but is 'balance'"),
        ({"iq": True}, "pairs, I and Q, but there are 3"),
        ({"patience": 1, "validation_fraction": 1.5}, "`validation_fraction` must be between 0 and 1"),
        ({"class_weight": {0: -1.0}}, "class weights must be finite and not below 0"),
        ({"updates": 0}, "`updates` must be a whole number or None, at least 1"),
        ({"readout": "max"}, "`readout` must be one of mean, cls, last, attention, but is 'max'"),
        ({"schedule": "x"}, "`schedule` must be one of constant, linear, cosine, inverse_sqrt, noam, but is 'x'"),
        ({"residual": "x"}, "`residual` must be one of post, pre, none, but is 'x'"),
        ({"readout": ["mean"]}, "`readout` must be one of"),
        ({"layers": 1001}, "`layers` must be at most 1,000, but is 1001"),
        ({"d_ff": 0}, "`d_ff` must be a whole number or None, at least 1, but is 0"),
        ({"verbose": -1}, "`verbose` must be a whole number, at least 0, but is -1"),
        ({"dropout": 1}, "`dropout` must be at least 0 and below 1, but is 1"),
        ({"learning_rate": math.nan}, "`learning_rate` must be above 0, but is nan"),
        ({"device": "foo"}, "device 'foo' cannot be used here: only auto, cpu, cuda and mps are known"),
        ({"class_weight": {7: 1}}, "`class_weight` has a weight for 7, which is no label in y: 0, 1"),
        ({"class_weight": {"0": 1}}, "`class_weight` has a weight for '0', which is no label in y: 0, 1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_parameters_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        hasty(**changes).fit(X, Y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 8.0}, "`d_model` must be a whole number, at least 1, but is 8.0, a float"),
        ({"d_model": "a"}, "`d_model` must be a whole number, at least 1, but is 'a', a str"),
        ({"layers": 1.5}, "`layers` must be a whole number, at least 1, but is 1.5, a float"),
        ({"window": 2.5}, "`window` must be a whole number"),
        ({"updates": 2.5}, "`updates` must be a whole number or None"),
        ({"batch_size": True}, "`batch_size` must be a whole number, at least 1, but is True, a bool"),
        ({"num_heads": None}, "`num_heads` must be a whole number, at least 1, but is None"),
        ({"dropout": None}, "`dropout` must be a number at least 0 and below 1, but is None"),
        ({"weight_decay": "0"}, "`weight_decay` must be a number at least 0, but is '0', a str"),
        ({"iq": "yes"}, "`iq` must be True or False, but is 'yes'"),
        ({"warm_start": 1}, "`warm_start` must be True or False, but is 1"),
        ({"augment": "noise"}, "`augment` must be a callable, or None, but is 'noise'"),
        ({"device": 3}, "`device` must be a name such as 'cpu', but is 3"),
        ({"class_weight": {0: "much"}}, "`class_weight` must give numbers, but 0 weighs 'much'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_other_types_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        hasty(**changes).fit(X, Y)
    with pytest.raises(TypeError, match=words):
        hasty(**changes).partial_fit(X, Y, classes=[0, 1])


def test_every_parameter_is_in_one_table() -> None:
    tables = (estimator_choices.WHOLE, estimator_choices.REAL, estimator_choices.WORDS, estimator_choices.OTHERS)
    named = [name for table in tables for name in table]
    assert sorted([*named, "class_weight", "random_state"]) == sorted(TransformerClassifier().get_params())


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda' cannot be used here: there is none"):
        hasty(device="cuda").fit(X, Y)


@pytest.mark.usefixtures("unchecked")
def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    numbers = {"d_model": np.int64(8), "dropout": np.float32(0), "iq": np.bool_(False), "verbose": False}
    model = hasty(**numbers).fit(X, Y)
    assert all(model.get_params()[name] is value for name, value in numbers.items())  # as scikit-learn asks
    model.save(tmp_path / "model")
    assert TransformerClassifier.load(tmp_path / "model").get_params() == model.get_params()
