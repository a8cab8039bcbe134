"""scikit-learn's own checks of an estimator, all of them, on one that learns little, soon."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from regard import TransformerClassifier

ESTIMATOR = TransformerClassifier(
    d_model=8, num_heads=2, layers=1, updates=30, learning_rate=2e-2, dropout=0.0, batch_size=128
)


@pytest.mark.usefixtures("unchecked")  # some hand over what no signature allows, to see what is said
@parametrize_with_checks([ESTIMATOR])
def test_finds_nothing(estimator: Any, check: Any) -> None:
    check(estimator)
