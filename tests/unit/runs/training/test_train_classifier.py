"""Signals by recipe: trained, stopped and gone on with, classified, evaluated, explained, verified; all by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cli import run
from regard.errors import FolderError, RecipeError
from regard.runs.recipes.signal_recipe import check_signals, complete, dump_signals, signal_tables
from regard.runs.recipes.toml import write_toml
from regard.runs.training.train_classifier import train_classifier
from regard.signals.classifier import load_classifier

MODEL = {"d_model": 8, "num_heads": 2, "layers": 1, "d_ff": 11, "readout": "attention", "dropout": 0.0}
TRAINING = {"updates": 24, "learning_rate": 2e-2, "save_every": 8, "validate_every": 8}


def recipe(tmp_path: Path, **data: Any) -> Path:
    """Write cases whose level tells their class, and a recipe that learns them."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 60), ("test", 30)):
        y = np.arange(n) % 2
        X = rng.standard_normal((n, 2, 6)) + 4 * y[:, None, None] - 2
        np.savez(tmp_path / f"{name}.npz", X=X, y=np.array(["no", "yes"])[y], site=np.arange(n) % 3)
    tables = {
        "data": {"kind": "signals", "train": "train.npz", "test": "test.npz", "groups": ["site"], **data},
        "model": MODEL,
        "training": TRAINING,
    }
    path = tmp_path / "recipe.toml"
    path.write_text(write_toml(tables))
    return path


def test_from_files_to_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = recipe(tmp_path), str(tmp_path / "run")
    assert run(["train", str(path), "--out", model]) == 0
    told = capsys.readouterr()
    assert "6 of 60 cases are set aside" in told.err
    assert not told.out

    assert run(["evaluate", model, "--data", str(tmp_path), "--plots", str(tmp_path / "plots")]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert "accuracy 100.00" in lines
    assert any(line.startswith("site") for line in lines)
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "accuracy-by-site.png",
        "calibration.png",
        "confusion.png",
    ]
    assert run(["evaluate", model, "--signals", str(tmp_path / "train.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == 60

    page = tmp_path / "look.html"
    assert run(["classify", model, str(tmp_path / "test.npz"), "--explain", str(page), "--first", "3"]) == 0
    assert capsys.readouterr().out == "no\nyes\n" * 15
    text = page.read_text(encoding="utf-8")
    assert '"type":"signal"' in text
    assert text.count('"name":"attention"') == 3
    assert run(["classify", model, str(tmp_path / "test.npz"), "--jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.split("\n")[0])
    assert first["label"] == "no"
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)

    ceiling = ["evaluate", model, "--data", str(tmp_path), "--ceiling"]
    of_text = [["evaluate", model, *flag] for flag in (["--source", "x"], ["--min-bleu", "0"], ["--worst", "3"])]
    for words in (*of_text, ceiling, ["translate", model]):
        assert run(words) == 2, words
    told = capsys.readouterr().err
    assert "is a classifier of signals, where it has no meaning" in told
    assert "known for generated signals alone" in told
    assert "holds a classifier of signals" in told


def test_stopped_and_gone_on_with_is_one_run_to_the_bit(tmp_path: Path) -> None:
    path = recipe(tmp_path, augment={"noise": 0.3})
    # a warm-up that is left out would fit the number of updates of the first call
    path.write_text(path.read_text() + 'schedule = "constant"\nkeep_best = 0\nwarmup = 2\n')
    whole = train_classifier(path, out=tmp_path / "whole", quiet=True)
    train_classifier(path, out=tmp_path / "parts", quiet=True, limits={"updates": 10})
    parts = train_classifier(path, out=tmp_path / "parts", quiet=True)
    for name, weights in whole.model.state_dict().items():
        assert (weights == parts.model.state_dict()[name]).all(), name
    with pytest.raises(FolderError, match=r"another recipe: training\.seed was 1 and is 7"):
        train_classifier(path, out=tmp_path / "parts", quiet=True, limits={"seed": 7})
    assert load_classifier(tmp_path / "whole").recipe == whole.recipe


def test_other_cases_are_not_gone_on_with(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    train_classifier(path, out=tmp_path / "run", quiet=True, limits={"updates": 8})
    stored = dict(np.load(tmp_path / "train.npz"))
    stored["X"][0, 0, 0] += 1
    np.savez(tmp_path / "train.npz", **stored)
    with pytest.raises(RecipeError, match="signals was"):
        train_classifier(path, out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize("fresh", [False, True])
def test_generated_and_the_ceiling(tmp_path: Path, capsys: pytest.CaptureFixture[str], fresh: bool) -> None:
    data = {
        "kind": "signals", "iq": True, "cases": 64, "fresh": fresh, "valid_cases": 20, "test_cases": 40,
        "modulations": {"names": ["BPSK", "QPSK"], "symbols": 16, "snr": [0, 20]},
    }  # fmt: skip
    path = tmp_path / "recipe.toml"
    path.write_text(write_toml({"data": data, "model": MODEL, "training": TRAINING}))
    assert run(["train", str(path), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert run(["evaluate", str(tmp_path / "run"), "--ceiling"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert any(
        line.startswith("maximum likelihood on the same cases: accuracy") and "snr 20: 100" in line for line in lines
    )


def test_the_recipe_in_effect_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(tmp_path)
    assert run(["train", str(path), "--dump", "--updates", "17"]) == 0
    dumped = capsys.readouterr().out
    assert "updates = 17" in dumped
    (tmp_path / "again.toml").write_text(dumped)
    assert run(["train", str(tmp_path / "again.toml"), "--dump"]) == 0
    assert capsys.readouterr().out == dumped


def test_what_is_left_out_fits_the_cases() -> None:
    tables, sentence = complete({"data": {"kind": "signals", "train": "a.ts"}}, 130)
    recipe = check_signals(tables)
    assert (recipe.training.updates, recipe.training.warmup, recipe.training.validate_every) == (300, 30, 20)
    assert sentence.startswith("130 cases to learn from; chosen to fit: updates = 300")
    assert check_signals(signal_tables(recipe)) == recipe
    assert "updates" not in dump_signals(check_signals(complete({**tables, "training": {"minutes": 1.0}}, 130)[0]))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"data": {"kind": "signals"}}, "exactly one of `train`, `tones` and `modulations`"),
        ({"data": {"kind": "signals", "train": "a", "tones": {}}}, "exactly one of"),
        ({"data": {"kind": "signals", "train": "a", "label": "x"}}, r"data\.label is unknown; did you mean 'labels'"),
        ({"data": {"kind": "signals", "train": "a"}, "model": {"width": 3}}, r"model\.width is unknown"),
        ({"data": {"kind": "signals", "train": "a"}, "model": {"num_classes": 3}}, "is that of the data"),
        ({"data": {"kind": "signals", "train": "a"}, "training": {"metric": "bleu"}}, "'bleu' is not measured"),
        ({"data": {"kind": "signals", "train": "a"}, "training": {"max_tokens": 3}}, r"data\.batch_size"),
        ({"data": {"kind": "signals", "train": "a", "augment": {"noise": -1}}}, r"data\.augment\.noise"),
        ({"data": {"kind": "signals", "modulations": {"names": ["BPSK", "FM"]}}}, "no constellation 'FM'"),
    ],
)
def test_mistakes_of_a_recipe(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        check_signals(tables)


def test_mistakes_meet_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(tmp_path)
    for flag in ("--preset tiny", "--dry-run", "--lr-range", "--tensorboard", "--replay x"):
        assert run(["train", str(path), *flag.split()]) == 2
        assert f"is of signals, where {flag.split()[0]} has no meaning" in capsys.readouterr().err
    assert run(["train", str(path), "--data", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "train.npz").unlink()
    assert run(["train", str(path), "--out", str(tmp_path / "run")]) == 2
    assert "train.npz: cannot be read" in capsys.readouterr().err
