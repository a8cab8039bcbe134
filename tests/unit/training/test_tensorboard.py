"""What TensorBoard reads back is what the observer was told."""

from __future__ import annotations

import math
import sys
import warnings

import pytest

from regard.errors import MissingExtraError
from regard.training.tensorboard import TensorBoard

pytest.importorskip("tensorboard")


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peer's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        accumulated = EventAccumulator(str(folder))
        accumulated.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulated.Scalars(tag)] for tag in accumulated.Tags()["scalars"]
    }


def update(number, loss):
    return {"update": number, "epoch": 1, "loss": loss, "gradient_norm": 0.5, "seconds": 1.0}


def test_curves(tmp_path):
    board = TensorBoard(tmp_path)
    board("started", {"update": 0, "seconds": 0.0})
    board("update", update(1, 3.0))
    board("update", update(2, math.nan))
    board("validation", {"update": 2, "figures": {"loss": 2.5, "BLEU": 1.5}, "seconds": 1.0})
    board("saved", {"update": 2, "seconds": 1.0})
    board("ended", {"update": 2, "seconds": 1.0})
    found = read(tmp_path)
    assert found["update/loss"] == [(1, 3.0)]
    assert found["update/gradient_norm"] == [(1, 0.5), (2, 0.5)]
    assert found["validation/BLEU"] == [(2, 1.5)]


def test_a_resumed_run_goes_on_at_its_checkpoint(tmp_path):
    for event, at, numbers in (("started", 0, (1, 2, 3)), ("resumed", 2, (3, 4))):
        board = TensorBoard(tmp_path)
        board(event, {"update": at, "seconds": 0.0})
        for number in numbers:
            board("update", update(number, number + at / 10))
        board("ended", {"update": numbers[-1], "seconds": 0.0})
    steps = dict(read(tmp_path)["update/loss"])
    assert steps == pytest.approx({1: 1.0, 2: 2.0, 3: 3.2, 4: 4.2})


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[track\]'"):
        TensorBoard(tmp_path)
