"""Each doubt is told for signals that deserve it, and none for clean ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.runs.recipes.signal_plan import plan_signals
from regard.runs.saying import say_nothing
from regard.runs.training.doubts_signals import doubts_of_signals
from regard.runs.training.prepare_signals import prepare_signals
from regard.runs.training.train_classifier import train_classifier

MODEL = {"d_model": 8, "num_heads": 2, "layers": 1, "d_ff": 11}


def signals(n: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((n, 2, 7))


def tables(folder: Path, learned: dict[str, Any], valid: dict[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    np.savez(folder / "train.npz", **learned)
    data = {"kind": "signals", "train": "train.npz"}
    if valid is not None:
        np.savez(folder / "valid.npz", **valid)
        data["valid"] = "valid.npz"
    return {"data": data, "model": MODEL | model, "training": {"updates": 2}}


def told(folder: Path, *files: dict[str, Any], **model: Any) -> list[str]:
    plan = plan_signals(tables(folder, *files, **model), data=folder)
    material = prepare_signals(plan, say_nothing)
    spec = plan.recipe.model.spec(len(material.classes), material.preparation.num_features, material.longest)
    return doubts_of_signals(material, spec)


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([3, 5]), np.array([3.0, 5.0])])
def test_clean_signals(tmp_path: Path, labels: np.ndarray[Any, Any]) -> None:
    learned, valid = ({"X": signals(n, n), "y": labels[np.arange(n) % 2]} for n in (53, 11))
    assert told(tmp_path, learned, valid, window=7) == []


def test_validated_on_what_was_learned(tmp_path: Path) -> None:
    X, y = signals(53, 1), np.arange(53) % 2
    mixed = np.concatenate([X[40:43], signals(8, 2)])
    [doubt] = told(tmp_path, {"X": X, "y": y}, {"X": mixed, "y": y[:11]})
    assert doubt.startswith("the cases of training hold 3 of 11 validation cases too, so that validation looks better")
    twice = {"X": np.concatenate([X, X]), "y": np.concatenate([y, y])}
    assert "validation cases too" in told(tmp_path, twice)[0], "and where a share is set aside"


def test_labels_that_are_measured(tmp_path: Path) -> None:
    [doubt] = told(tmp_path, {"X": signals(53, 1), "y": np.arange(53) % 3 / 2})
    assert doubt.startswith("labels are fractions, as 0.5: each of the 3 is a class of its own")


def test_a_window_longer_than_every_case(tmp_path: Path) -> None:
    [doubt] = told(tmp_path, {"X": signals(53, 1), "y": np.arange(53) % 2}, window=11)
    assert doubt.startswith("model.window = 11 is longer than the longest case, of 7 frames")


def test_a_doubt_is_told_when_a_run_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = tables(tmp_path, {"X": signals(53, 1), "y": np.arange(53) % 3 / 2})
    times = []
    for _ in range(2):
        train_classifier(asked, data=tmp_path, out=tmp_path / "run")
        times.append(capsys.readouterr().err.count("warning: labels are fractions"))
    assert times == [1, 0]
    train_classifier(asked, data=tmp_path, out=tmp_path / "quiet", quiet=True)
    assert capsys.readouterr().err == ""
