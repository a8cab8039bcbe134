"""Variants of a recipe are trained one after the other, once each, and told as mean and spread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard.runs.looking.trial
from regard.cli import run
from regard.errors import FolderError, InputError, InterruptedRun, RecipeError
from regard.inspection.figures import compared_variants
from regard.runs.evaluating.evaluate_classifier import evaluate_classifier
from regard.runs.looking.ablate import Outcome, ablate, table_lines
from regard.runs.recipes.toml import write_toml
from unit.runs.toys import write_corpus

VARY = ["model.positions=none,sinusoidal"]


def test_every_variant_is_checked_before_one_is_trained(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    with pytest.raises(RecipeError, match=r"recipe\.toml with model\.positions=rotory: .*did you mean 'rotary'"):
        ablate(
            tmp_path / "recipe.toml",
            ["model.positions=none,rotory"],
            out=tmp_path / "o",
            quiet=True,
            say=lambda _: None,
        )
    with pytest.raises(InputError, match="--seeds must be at least 1"):
        ablate(tmp_path / "recipe.toml", VARY, seeds=0, out=tmp_path / "o", quiet=True, say=lambda _: None)
    assert not (tmp_path / "o").exists()


def test_where_runs_cannot_go_is_told_before_one_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path)
    monkeypatch.setattr(regard.runs.looking.trial, "train", None)
    words = ["ablate", str(tmp_path / "recipe.toml"), "--vary", VARY[0], "-o"]
    file = tmp_path / "train.src"
    for out in (file, file / "inside"):
        assert run([*words, str(out)]) == 2
        assert f"{out}: cannot be a folder, because {file} is a file; name another one" in capsys.readouterr().err


def test_a_variant_given_twice_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path)
    said: list[str] = []
    begun = []

    def stopped(recipe: Path, **_: object) -> None:
        begun.append(recipe.name)
        raise InterruptedRun("stop")

    monkeypatch.setattr(regard.runs.looking.trial, "train", stopped)
    vary = ['model.positions="none",{kind = "none"},"none","learned"']
    with pytest.raises(InterruptedRun):
        ablate(tmp_path / "recipe.toml", vary, seeds=1, out=tmp_path / "o", quiet=True, say=said.append)
    same = "comes to the same as model.positions=none, which is trained once"
    assert said == [
        f"model.positions={{kind=none}} {same}",
        f"model.positions=none {same}",
        "1 of 2: model.positions=none, seed 1",
    ]
    assert begun == ["model.positions=none-seed-1.toml"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Outcome]]:
    folder = tmp_path_factory.mktemp("ablate")
    write_corpus(folder)
    (folder / "test.tsv").write_text("12\t21\n3\t3\n")
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("valid_lines = 5", 'valid_lines = 5\ntest_pairs = "test.tsv"'))
    return folder, ablate(recipe, VARY, seeds=2, out=folder / "out", device="cpu", quiet=True, say=lambda _: None)


def test_each_variant_is_trained_with_each_seed(trained: tuple[Path, list[Outcome]]) -> None:
    folder, outcomes = trained
    assert [(o.variant, o.seed) for o in outcomes] == [
        ("model.positions=none", 1),
        ("model.positions=none", 2),
        ("model.positions=sinusoidal", 1),
        ("model.positions=sinusoidal", 2),
    ]
    assert {"loss", "perplexity", "BLEU", "test.BLEU"} <= set(outcomes[0].figures)
    assert len({o.figures["loss"] for o in outcomes}) == 4
    config = json.loads((folder / "out/model.positions=none/seed-2/model/config.json").read_text())
    assert config["spec"]["positions"] == {"kind": "none"}
    assert config["recipe"]["training"]["seed"] == 2
    stored = json.loads((folder / "out/ablation.json").read_text())
    assert [entry["figures"]["loss"] for entry in stored] == [o.figures["loss"] for o in outcomes]
    pytest.importorskip("matplotlib")
    assert (folder / "out/ablation.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_finished_is_not_trained_again(
    trained: tuple[Path, list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outcomes = trained
    monkeypatch.setattr(regard.runs.looking.trial, "train", None)
    again = ablate(folder / "recipe.toml", VARY, seeds=2, out=folder / "out", quiet=True, say=lambda _: None)
    assert again == outcomes
    other = ["model.positions=learned,sinusoidal", "training.updates=4"]  # of the first nothing is there yet
    with pytest.raises(FolderError, match="was trained by another recipe; choose another --out"):
        ablate(folder / "recipe.toml", other, seeds=2, out=folder / "out", quiet=True, say=lambda _: None)


def test_a_request_to_stop_is_not_followed_by_the_next_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path)
    begun = []

    def stopped(recipe: Path, **said: object) -> None:
        begun.append(recipe.name)
        for observer in said["observers"]:  # type: ignore[attr-defined]
            observer("ended", {"reason": "terminated"})

    monkeypatch.setattr(regard.runs.looking.trial, "train", stopped)
    with pytest.raises(InterruptedRun):
        ablate(tmp_path / "recipe.toml", VARY, out=tmp_path / "out", quiet=True, say=lambda _: None)
    assert begun == ["model.positions=none-seed-1.toml"]


def test_the_table_has_mean_and_standard_deviation() -> None:
    outcomes = [
        Outcome("a=1", 1, 1000, {"loss": 1.0}, "x"),
        Outcome("a=1", 2, 1000, {"loss": 2.0}, "x"),
        Outcome("a=2", 1, 2000, {"loss": 3.0}, "x"),
        Outcome("a=2", 2, 2000, {"loss": 3.0}, "x"),
    ]
    [table, _, below] = table_lines(outcomes)
    assert table.split("\n") == [
        "variant  parameters        loss",
        "a=1           1,000  1.5 ± 0.71",
        "a=2           2,000       3 ± 0",
    ]
    assert below == "mean ± standard deviation over 2 seeds"
    assert list(table_lines(outcomes[::2]))[-1] == "one seed: no spread is known"


def test_the_picture_has_a_dot_for_each_seed() -> None:
    pytest.importorskip("matplotlib")
    figure = compared_variants({"loss": {"a": [1.0, 2.0, float("nan")], "b": [3.0]}, "BLEU": {"a": [5.0], "b": []}})
    loss, bleu = figure.axes
    dots = [line.get_xdata() for line in loss.lines if line.get_marker() == "o"]
    assert [list(xs) for xs in dots] == [[1.0, 2.0], [3.0]]
    assert [label.get_text() for label in loss.get_yticklabels()] == ["a", "b"]
    assert bleu.get_xlabel() == "BLEU"
    with pytest.raises(InputError, match="no figure to compare"):
        compared_variants({})


def test_signals_are_ablated_too(tmp_path: Path) -> None:
    data = {"kind": "signals", "cases": 24, "valid_cases": 11, "test_cases": 13, "tones": {"length": 16}}
    sizes = {"d_model": 8, "num_heads": 2, "layers": 1, "d_ff": 11}
    recipe = tmp_path / "tones.toml"
    recipe.write_text(write_toml({"data": data, "model": sizes, "training": {"updates": 3}}))
    with pytest.raises(RecipeError, match=r"model\.readout = 'means'.*did you mean 'mean'"):
        ablate(recipe, ["model.readout=means"], out=tmp_path / "o", quiet=True, say=lambda _: None)
    vary = ["model.readout=mean,attention"]
    outcomes = ablate(recipe, vary, seeds=1, out=tmp_path / "out", device="cpu", quiet=True, say=lambda _: None)
    assert [outcome.variant for outcome in outcomes] == ["model.readout=mean", "model.readout=attention"]
    assert outcomes[0].parameters < outcomes[1].parameters
    names = {"loss", "accuracy", "balanced_accuracy", "macro_f1"}
    assert outcomes[0].figures.keys() == names | {f"test.{name}" for name in names}
    found = evaluate_classifier(outcomes[1].folder).report
    assert outcomes[1].figures["test.accuracy"] == found.accuracy


def test_the_verb(trained: tuple[Path, list[Outcome]], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = trained
    words = ["ablate", str(folder / "recipe.toml"), "--vary", VARY[0], "--seeds", "2", "-o", str(folder / "out")]
    assert run([*words, "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("variant") and "±" in said.out
    assert "4 of 4: model.positions=sinusoidal, seed 2" in said.err
    assert run([*words, "--json", "-q"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert run(["ablate", str(folder / "recipe.toml")]) == 2
    assert "--vary" in capsys.readouterr().err
    assert run(["ablate", "nowhere.toml", "--vary", "model.tie=none"]) == 2
    assert "nowhere.toml: the recipe cannot be read" in capsys.readouterr().err
