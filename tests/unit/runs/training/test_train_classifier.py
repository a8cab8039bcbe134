"""Signals by recipe: trained, stopped and gone on with, classified, evaluated, explained, verified; all by command."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard.runs.training.train_classifier as train_module
from regard.cli import run
from regard.errors import DataError, FolderError, InputError, RecipeError
from regard.inspection.figures import read_log
from regard.runs.evaluating.evaluate_classifier import evaluate_classifier
from regard.runs.recipes.signal_recipe import check_signals, complete, dump_signals, signal_tables
from regard.runs.recipes.tables import read_tables
from regard.runs.recipes.toml import write_toml
from regard.runs.training.train_classifier import train_classifier
from regard.signals.classifier import load_classifier
from regard.signals.synthetic import Tones
from regard.training import Checkpoints
from regard.training.distributed import Ranks
from regard.training.weights import from_bytes
from unit.training.together import together

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
    assert "set aside, a share of each class: 6 of 60 cases" in told.err
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
    told = capsys.readouterr()
    assert (told.out, told.err) == ("no\nyes\n" * 15, f"{page}: what counted in 3 cases\n")
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


def test_groups_that_nobody_knows_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = recipe(tmp_path), str(tmp_path / "run")
    assert run(["train", str(path), "--out", model, "--updates", "8", "--quiet"]) == 0
    for words in (["--data", str(tmp_path)], ["--signals", str(tmp_path / "test.npz")]):
        assert run(["evaluate", model, *words, "--group", "sites"]) == 2
        assert "holds no array 'sites'; did you mean 'site'?" in capsys.readouterr().err
    tables = {"data": {"kind": "signals", "cases": 64, "tones": {}}, "model": MODEL, "training": TRAINING}
    (tmp_path / "tones.toml").write_text(write_toml(tables))
    assert run(["train", str(tmp_path / "tones.toml"), "--out", str(tmp_path / "tones"), "--updates", "8", "-q"]) == 0
    assert run(["evaluate", str(tmp_path / "tones"), "--group", "snr"]) == 2
    assert "the generated signals have no group 'snr'" in capsys.readouterr().err


def test_labels_that_are_none_of_those_learned_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers are no names of classes, but where a generator made the classes, which numbers them itself."""
    path, model = recipe(tmp_path), str(tmp_path / "run")
    assert run(["train", str(path), "--out", model, "--updates", "8", "--quiet"]) == 0
    file = tmp_path / "numbers.npz"
    np.savez(file, X=np.zeros((7, 2, 6)), y=np.arange(7) % 2, site=np.arange(7))
    assert run(["evaluate", model, "--signals", str(file)]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert f"{file}: the label '0' is none of those learned: no, yes" in told.err
    tables = {
        "data": {"kind": "signals", "cases": 64, "tones": {"frequencies": [5, 7, 11]}},
        "model": MODEL,
        "training": TRAINING,
    }
    (tmp_path / "tones.toml").write_text(write_toml(tables))
    assert run(["train", str(tmp_path / "tones.toml"), "--out", str(tmp_path / "tones"), "--updates", "8", "-q"]) == 0
    drawn = Tones((5, 7, 11)).draw(30, np.random.default_rng(0))
    np.savez(file, X=drawn.X, y=drawn.y)
    assert run(["evaluate", str(tmp_path / "tones"), "--signals", str(file)]) == 0
    np.savez(file, X=drawn.X, y=drawn.y + 10)
    assert run(["evaluate", str(tmp_path / "tones"), "--signals", str(file)]) == 2
    assert "the label '10' is none of those learned" in capsys.readouterr().err


def test_files_that_are_laid_out_otherwise_than_that_of_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = recipe(tmp_path, labels="season", x="signal", lengths="n"), str(tmp_path / "run")
    for name in ("train", "test"):
        with np.load(tmp_path / f"{name}.npz") as stored:
            X, y, site = (stored[key][:, :1] if key == "X" else stored[key] for key in ("X", "y", "site"))
        np.savez(tmp_path / f"{name}.npz", signal=X, season=y, site=site, n=np.full(len(y), 6))
    assert run(["train", str(path), "--out", model, "--quiet"]) == 0
    assert run(["classify", model, str(tmp_path / "test.npz")]) == 0
    right = capsys.readouterr().out
    assert right == "no\nyes\n" * 15

    rows = [",".join(map(str, case[0])) for case in X]
    head = ",".join(f"t{n}" for n in range(6))
    files = {
        "other.npz": ("--labels", "kind", "--x", "X", "--lengths", "long"),
        "named.csv": ("--labels", "kind"),
        "numbered.csv": ("--labels", "7"),
        "usual.csv": ("--labels", "label"),
        "season.csv": (),
        "plain.npy": ("--labels", "names.txt"),
        "archive.ts": (),
    }
    np.savez(tmp_path / "other.npz", X=X, kind=y, long=np.full(len(y), 6))
    for name, column in (("named", "kind"), ("numbered", "of"), ("usual", "label"), ("season", "season")):
        lines = [f"{head},{column}", *(f"{row},{label}" for row, label in zip(rows, y, strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    np.save(tmp_path / "plain.npy", X)
    (tmp_path / "names.txt").write_text("\n".join(y))
    lines = ["@classLabel true no yes", "@data", *(f"{row}:{label}" for row, label in zip(rows, y, strict=True))]
    (tmp_path / "archive.ts").write_text("\n".join(lines))
    for name, flags in files.items():
        assert run(["classify", model, str(tmp_path / name), *flags]) == 0, name
        assert capsys.readouterr().out == right, name
        assert run(["evaluate", model, "--signals", str(tmp_path / name), *flags]) == 0, name
        assert "accuracy 100.00" in capsys.readouterr().out, name

    np.savez(tmp_path / "bare.npz", signal=X, n=np.full(len(y), 6))
    (tmp_path / "bare.csv").write_text("\n".join([head, *rows]))
    for name in ("bare.npz", "bare.csv", "plain.npy"):  # no labels
        assert run(["classify", model, str(tmp_path / name)]) == 0, name
        assert capsys.readouterr().out == right, name
    wrong = {
        ("classify", model, str(tmp_path / "named.csv"), "--labels", "kid"): "no column 'kid'; did you mean 'kind'?",
        ("classify", model, str(tmp_path / "named.csv"), "--lengths", "n"): "`lengths` names the array of an .npz file",
        ("evaluate", model, "--signals", str(tmp_path / "plain.npy")): "holds no labels; say where they are",
        ("evaluate", model, "--labels", "kind"): "says how the file of --signals is laid out",
    }
    for words, told in wrong.items():
        assert run(list(words)) == 2, words
        assert told in " ".join(capsys.readouterr().err.split()), words


def test_averages_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = recipe(tmp_path), tmp_path / "run"
    train_classifier(path, out=out, quiet=True)
    assert run(["average", str(out), "--last", "2", "-o", str(tmp_path / "mean")]) == 0
    told = capsys.readouterr().err
    assert told == f"{tmp_path / 'mean'}: the mean of the weights of updates 16 and 24\n"
    kept = [
        from_bytes((out / "checkpoints" / f"update-000000{n}" / "model.safetensors").read_bytes()) for n in (16, 24)
    ]
    mean = load_classifier(tmp_path / "mean")
    for name, weights in mean.model.state_dict().items():
        torch.testing.assert_close(weights, (kept[0][f"model.{name}"] + kept[1][f"model.{name}"]) / 2)
    asked = load_classifier(out)
    assert (mean.preparation, mean.recipe) == (asked.preparation, asked.recipe)
    (out / "model" / "notes.txt").write_text("kept")
    assert run(["average", str(out)]) == 2
    assert run(["train", str(path), "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("holds other things than a model") == 2


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ({}, "best"),
        ({"keep_best": 0}, "last"),
        ({"average": "last", "average_count": 2}, "last"),
        ({"average": "best", "average_count": 1}, "best"),
    ],
)
def test_what_is_returned_is_what_the_folder_holds(tmp_path: Path, asked: dict[str, Any], held: str) -> None:
    tables = read_tables(recipe(tmp_path, valid_fraction=0.3))
    with np.load(tmp_path / "train.npz") as stored:  # nothing can be learned: what comes last is not the best
        labels = np.random.default_rng(2).permutation(stored["y"])
        np.savez(tmp_path / "train.npz", **(dict(stored) | {"y": labels}))
    tables["training"] |= asked
    returned = train_classifier(tables, out=tmp_path / "run", data=tmp_path, quiet=True).model.state_dict()
    kept = load_classifier(tmp_path / "run").model.state_dict()
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints")
    chosen = checkpoints.chosen(held, asked.get("average_count", 1))
    assert chosen != checkpoints.chosen("last" if held == "best" else "best", len(chosen))
    weights = checkpoints.average(chosen)
    for name in kept:
        assert torch.equal(returned[name], kept[name]) and torch.equal(kept[name], weights[f"model.{name}"]), name


@pytest.mark.parametrize("fresh", [False, True])
def test_two_processes_train_what_one_does(tmp_path: Path, fresh: bool) -> None:
    """Batches of 7 and of 1 of 29 cases, so that one process has nothing of the last; losses differ by roundings."""
    path = recipe(tmp_path, valid_fraction=0.0, batch_size=7, augment={"noise": 0.1, "crop": 0.6})
    tables = read_tables(path)
    if fresh:
        data = {"kind": "signals", "cases": 29, "fresh": True, "batch_size": 7, "valid_cases": 20, "test_cases": 40}
        tables["data"] = data | {"tones": {"length": 16}, "augment": {"noise": 0.1}}
    else:
        with np.load(tmp_path / "train.npz") as stored:
            np.savez(tmp_path / "train.npz", **{name: array[:29] for name, array in stored.items()})
    tables["training"] |= {"updates": 6}
    alone = train_classifier(tables, out=tmp_path / "one", data=tmp_path, quiet=True)

    def work(ranks: Ranks) -> dict[str, list[float]]:
        train_module.joined = lambda device: nullcontext(ranks)  # type: ignore[attr-defined]  # in this process alone
        found = train_classifier(tables, out=tmp_path / "two", data=tmp_path, quiet=True)
        return {name: weights.flatten().tolist() for name, weights in found.model.state_dict().items()}

    shared = together(tmp_path, 2, work)
    assert shared[0] == shared[1]
    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("one", "two")]
    updates = [[event for event in log if event["event"] == "update"] for log in logs]
    assert [event["tokens"] for event in updates[1]] == [event["tokens"] for event in updates[0]]  # each case once
    losses = [[event["loss"] for event in of_one] for of_one in updates]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)  # float32, sums in another order
    assert len(losses[0]) == 6
    assert alone.model.spec == load_classifier(tmp_path / "two").model.spec


def test_every_label_once_is_no_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.zeros((5, 7)), y=np.arange(5) / 3)
    data = {"kind": "signals", "train": "a.npz"}
    with pytest.raises(DataError, match=r"a\.npz: 5 cases of 5 classes"):
        train_classifier({"data": data}, out=tmp_path / "run", data=tmp_path, quiet=True)


def test_a_case_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = recipe(tmp_path), str(tmp_path / "run")
    assert run(["train", str(path), "--out", model, "--updates", "8", "--quiet"]) == 0
    stored = dict(np.load(tmp_path / "test.npz"))
    wrong = {
        "nan": (np.where(np.arange(30)[:, None, None] == 11, np.nan, stored["X"]), "case 11: Input X contains NaN"),
        "inf": (
            np.where(np.arange(30)[:, None, None] == 13, np.inf, stored["X"]),
            "case 13: Input X contains infinity",
        ),
        "axes": (stored["X"].transpose(0, 2, 1), "the cases have 6 channels, but those of training had 2"),
        "long": (np.zeros((30, 2, 1700)), "1700|1,700"),
    }
    for name, (X, words) in wrong.items():
        file = tmp_path / f"{name}.npz"
        np.savez(file, **(stored | {"X": X}))
        for command in (["classify", model, str(file)], ["evaluate", model, "--signals", str(file)]):
            assert run(command) == 2, command
            told = capsys.readouterr().err
            assert str(file) in told, told
            assert re.search(words, told), told
    np.savez(tmp_path / "train.npz", **(stored | {"X": wrong["nan"][0]}))
    assert run(["train", str(path), "--out", str(tmp_path / "other"), "--quiet"]) == 2
    assert "train.npz: case 11: Input X contains NaN" in capsys.readouterr().err


def test_a_channel_that_stands_still_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(tmp_path)
    stored = dict(np.load(tmp_path / "train.npz"))
    stored["X"][:, 1] = 17.0
    np.savez(tmp_path / "train.npz", **stored)
    assert run(["train", str(path), "--out", str(tmp_path / "run"), "--updates", "1"]) == 0
    words = "warning: train.npz: the training part is constant in channel 1: nothing can be learned from it\n"
    assert capsys.readouterr().err.count(words) == 1


def test_stopped_and_gone_on_with_is_one_run_to_the_bit(tmp_path: Path) -> None:
    path = recipe(tmp_path, augment={"noise": 0.3})
    # a warm-up that is left out would fit the number of updates of the first call
    path.write_text(path.read_text() + 'schedule = "constant"\nkeep_best = 0\nwarmup = 2\n')
    whole = train_classifier(path, out=tmp_path / "whole", quiet=True)
    train_classifier(path, out=tmp_path / "parts", quiet=True, changes={"training.updates": 10})
    parts = train_classifier(path, out=tmp_path / "parts", quiet=True)
    for name, weights in whole.model.state_dict().items():
        assert (weights == parts.model.state_dict()[name]).all(), name
    with pytest.raises(FolderError, match=r"another recipe: training\.seed was 1 and is 7"):
        train_classifier(path, out=tmp_path / "parts", quiet=True, changes={"training.seed": 7})
    assert load_classifier(tmp_path / "whole").recipe == whole.recipe


def test_other_cases_are_not_gone_on_with(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    train_classifier(path, out=tmp_path / "run", quiet=True, changes={"training.updates": 8})
    stored = dict(np.load(tmp_path / "train.npz"))
    stored["X"][0, 0, 0] += 1
    np.savez(tmp_path / "train.npz", **stored)
    with pytest.raises(RecipeError, match="otherwise: the content of the signals has changed"):
        train_classifier(path, out=tmp_path / "run", quiet=True)


def test_pictures_that_have_no_place_are_refused_before_the_model_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be a folder"):
        evaluate_classifier(tmp_path / "no-model", plots=tmp_path / "file")


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
    assert run(["train", str(path), "--dump", "--updates", "17", "--set", "training.seed=23"]) == 0
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
        ({"data": {"kind": "signals", "tones": {"frequencies": []}}}, "`tones.frequencies` must be"),
        ({"data": {"kind": "signals", "tones": {"noise": float("nan")}}}, "`tones.noise` must be"),
        ({"data": {"kind": "signals", "tones": {}, "cases": 10**15}}, "`cases` asks for 1,000,000,000,000,000 cases"),
        ({"data": {"kind": "signals", "tones": {}, "test_cases": 10**15}}, "`test_cases` asks for"),
        ({"data": {"kind": "signals", "tones": {}, "fresh": True, "batch_size": 10**15}}, "`batch_size` asks for"),
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
