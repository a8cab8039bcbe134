"""Estimators that learn in no time, and cases to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import TransformerClassifier


def quick(**changes: Any) -> TransformerClassifier:
    """Return an estimator that learns little, soon."""
    sizes = {"d_model": 8, "num_heads": 2, "layers": 1, "updates": 30, "learning_rate": 2e-2, "dropout": 0.0}
    return TransformerClassifier(**{**sizes, "batch_size": 128, "random_state": 0, **changes})


def hasty(**changes: Any) -> TransformerClassifier:
    """Return an estimator that learns next to nothing, at once."""
    return TransformerClassifier(**{"d_model": 8, "num_heads": 2, "layers": 1, "updates": 2, **changes})


def levels(n: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Return cases of 2 channels and 3 to 11 frames whose second channel stands at the level of the class."""
    y = np.arange(n) % 2
    return [rng.standard_normal((2, rng.integers(3, 12))) + np.array([[0], [4 * of - 2]]) for of in y], y


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape)
