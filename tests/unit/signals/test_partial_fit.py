"""The estimator learns from parts, one after the other, as from one training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.base import clone

from unit.signals.toys import levels, quick, zeros


def test_parts_are_learned_from_one_after_the_other() -> None:
    X, y = levels(120, np.random.default_rng(0))
    labels = np.array(["no", "yes"])[y]
    model = quick(batch_size=8, warmup=0)
    for start in range(0, 100, 20):
        part = slice(start, start + 20)
        model.partial_fit(X[part], labels[part], classes=["yes", "no"] if start == 0 else None)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X[100:], labels[100:]) == 1
    assert model.n_updates_ == len(model.history_) == 15
    first = quick(batch_size=8).partial_fit(X[:20], labels[:20], classes=["no", "yes"])
    assert model.classifier_.preparation == first.classifier_.preparation


def test_the_optimiser_remembers_the_parts_before() -> None:
    """Two parts that are one batch each are one training of two updates, written out."""
    X, y = zeros(2, 5, 7) + np.arange(5)[:, None], np.array([0, 1, 0, 1, 1])
    X += np.random.default_rng(0).standard_normal(X.shape)
    model = quick(scaling="none", schedule="constant", warmup=0, weight_decay=0.0, updates=2)
    parts = clone(model).partial_fit(X[0], y, classes=[0, 1]).partial_fit(X[1], y)
    fresh = clone(model).partial_fit(X[0], y, classes=[0, 1])
    fresh._stream.memory.clear()
    fresh.partial_fit(X[1], y)
    by_hand = clone(model).partial_fit(X[0], y, classes=[0, 1]).classifier_.model
    start = clone(model).set_params(learning_rate=1e-30).partial_fit(X[0], y, classes=[0, 1]).classifier_.model
    optimizer = torch.optim.AdamW(start.parameters(), lr=2e-2, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    for x in X:
        optimizer.zero_grad()
        frames = torch.from_numpy(x[:, :, None]).float()
        F.cross_entropy(start(frames), torch.from_numpy(y), label_smoothing=0.1).backward()
        torch.nn.utils.clip_grad_norm_(start.parameters(), 1.0)
        optimizer.step()
    expected = torch.cat([p.flatten() for p in start.parameters()])
    found, forgot = (torch.cat([p.flatten() for p in one.classifier_.model.parameters()]) for one in (parts, fresh))
    # where a gradient is all but 0, Adam's step of 2e-2 hangs on its last digits
    close = (found - expected).abs() < 1e-4
    assert close.float().mean() > 0.95
    assert (forgot - expected).abs().median() > 1e-3
    assert by_hand is not start


def test_parts_go_on_after_a_fit_and_weigh_classes_alike() -> None:
    X, y = levels(40, np.random.default_rng(0))
    model = quick().fit(X, y)
    known = model.predict_proba(X)
    model.set_params(learning_rate=1e-9).partial_fit(X[:5], y[:5])
    assert model.n_updates_ == 31
    np.testing.assert_allclose(model.predict_proba(X), known, atol=1e-6)
    rare = quick(class_weight={1: 3.0}).partial_fit(X[::2], y[::2], classes=[0, 1])
    plain = quick().partial_fit(X[::2], y[::2], classes=[0, 1])
    # all cases of this part are of class 0, whose weight of the two is 1/2 of the mean
    assert rare.history_[0]["loss"] == pytest.approx(plain.history_[0]["loss"] / 2)


@pytest.mark.parametrize(
    ("y", "classes", "words"),
    [
        ([0, 1, 0, 1], None, "classes must be passed on the first call"),
        ([0, 1, 0, 1], [0], "a classifier needs at least two"),
        ([0, 1, 0, 7], [0, 1], "y holds 7, which is not among the classes: 0, 1"),
    ],
)
def test_parts_that_are_refused(y: Any, classes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quick().partial_fit(zeros(4, 3), y, classes=classes)
    with pytest.raises(ValueError, match="not supported by partial_fit"):
        quick(class_weight="balanced").partial_fit(zeros(4, 3), [0, 1, 0, 1], classes=[0, 1])
    begun = quick().partial_fit(np.eye(4, 3), [0, 1, 0, 1], classes=[0, 1])
    with pytest.raises(ValueError, match=r"classes=\[0, 2\] is not the same as before, which was \[0, 1\]"):
        begun.partial_fit(np.eye(4, 3), [0, 1, 0, 1], classes=[0, 2])
