"""A whole run on a toy: files in, model folder out, stopped and gone on with, refused where it is not the same run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import DataError, FolderError, InterruptedRun, RecipeError
from regard.runs.evaluating.evaluate import evaluate
from regard.runs.training.export import export
from regard.runs.training.folder import RunFolder
from regard.runs.training.train import train
from unit.runs.toys import RECIPE, write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    return tmp_path


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_two_files_become_a_translator(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = corpus / "out"
    translator = train(corpus / "recipe.toml", out=out)
    texts = ["123", "", "77"]
    outputs = translator(texts)
    assert outputs[1] == "" and len(outputs) == 3
    assert regard.load(out)(texts) == outputs  # a run folder and its model folder are the same model
    assert regard.load(out / "model")(texts) == outputs

    told = capsys.readouterr()
    assert told.out == ""
    assert "37 pairs" in told.err and "held out, chosen by their hash" in told.err
    assert "validation after update 2" in told.err and "done after update 3" in told.err
    events = [json.loads(line)["event"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert events == ["started", "update", "update", "validation", "update", "validation", "ended"]
    config = json.loads((out / "model" / "config.json").read_text())
    assert config["recipe"]["training"]["updates"] == 3


def test_stopped_and_gone_on_with_gives_the_same_bytes(corpus: Path) -> None:
    whole, parts = corpus / "whole", corpus / "parts"
    train(corpus / "recipe.toml", out=whole, updates=5, quiet=True)

    def stop(event: str, facts: Mapping[str, Any]) -> None:
        if event == "update" and facts["update"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRun, match="after update 3"):
        train(corpus / "recipe.toml", out=parts, updates=5, quiet=True, observers=[stop])
    assert regard.load(parts)(["12"])  # what there is can be used
    train(corpus / "recipe.toml", out=parts, updates=5, quiet=True)
    assert weights(parts) == weights(whole)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (1, "nothing is saved yet, and the same command begins anew"),
        (3, "update 2 is saved, and the same command goes"),
    ],
)
def test_a_second_interrupt_tells_what_is_kept(corpus: Path, update: int, words: str) -> None:
    def stop_twice(event: str, facts: Mapping[str, Any]) -> None:
        if event == "update" and facts["update"] == update:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRun, match=f"stopped at once; {words}"):
        train(corpus / "recipe.toml", out=corpus / "out", updates=5, quiet=True, observers=[stop_twice])
    assert not (corpus / "out" / "model").exists(), "that would take time"
    assert train(corpus / "recipe.toml", out=corpus / "out", updates=5, quiet=True)(["12"])


def test_an_interrupt_while_the_model_is_written_tells_what_is_kept(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(regard.runs.training.export, "save_bundle", interrupt)
    with pytest.raises(InterruptedRun, match="stopped at once; update 3 is saved"):
        train(corpus / "recipe.toml", out=corpus / "out", quiet=True)


def test_a_finished_run_goes_on_when_more_is_asked(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    train(corpus / "recipe.toml", out=corpus / "out", updates=4)
    assert "going on after update 3" in capsys.readouterr().err
    before = [path.name for path in (corpus / "out" / "checkpoints").iterdir()]
    train(corpus / "recipe.toml", out=corpus / "out", updates=4)
    told = capsys.readouterr().err
    assert "nothing to do: this run reached `updates` = 4 before, after update 4 and 0." in told
    assert "validating" not in told
    assert [path.name for path in (corpus / "out" / "checkpoints").iterdir()] == before


def test_more_minutes_go_on_with_the_warm_up_that_was_chosen(corpus: Path) -> None:
    free = RECIPE.replace("updates = 3\n", "").replace("warmup = 2\n", "")
    (corpus / "recipe.toml").write_text(free)
    train(corpus / "recipe.toml", out=corpus / "out", minutes=0.001, quiet=True)
    assert RunFolder(corpus / "out").warmup() == 20
    train(corpus / "recipe.toml", out=corpus / "out", minutes=3, updates=2, quiet=True)
    assert RunFolder(corpus / "out").warmup() == 20


def test_a_run_that_older_keys_describe_goes_on(corpus: Path) -> None:
    """Keys that this run's recipe does not know yet count as their defaults."""
    (corpus / "more.tsv").write_text("5\t5\n")
    extra = '[[data.corpora]]\npairs = "more.tsv"\n'
    (corpus / "recipe.toml").write_text(RECIPE + extra)
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    kept = corpus / "out" / "recipe.toml"
    newer = ("ema = ", "nbest_keep = ")
    kept.write_text("".join(f"{line}\n" for line in kept.read_text().split("\n") if not line.startswith(newer)))
    (corpus / "other.toml").write_text((RECIPE + extra).replace("[training]", "[training]\nema = 0.5"))
    with pytest.raises(FolderError, match=r"training\.ema was 0\.0 and is 0\.5"):
        train(corpus / "other.toml", out=corpus / "out", quiet=True)
    train(corpus / "recipe.toml", out=corpus / "out", updates=4, quiet=True)


def test_another_recipe_is_refused_key_by_key(corpus: Path) -> None:
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    before = weights(corpus / "out")
    with pytest.raises(FolderError) as caught:
        train(corpus / "recipe.toml", out=corpus / "out", preset="small", seed=9, quiet=True)
    assert caught.match('model.preset was "tiny" and is "small"; training.seed was 1 and is 9')
    (corpus / "recipe.toml").write_text(RECIPE.replace("dropout = 0.1\n", ""))
    with pytest.raises(FolderError, match=r"model\.dropout was 0\.1 and is 0\.3"):
        train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    assert weights(corpus / "out") == before


def test_files_may_move_but_not_change(corpus: Path) -> None:
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    for side in ("src", "tgt"):
        (corpus / f"train.{side}").rename(corpus / f"moved.{side}")
    moved = {"source": corpus / "moved.src", "target": corpus / "moved.tgt"}
    train(corpus / "recipe.toml", **moved, out=corpus / "out", quiet=True)
    for side in ("src", "tgt"):
        with (corpus / f"moved.{side}").open("a") as file:
            file.write("7\n")
    with pytest.raises(RecipeError, match="otherwise: the content of the training text has changed"):
        train(corpus / "recipe.toml", **moved, out=corpus / "out", quiet=True)


def test_a_recipe_that_came_to_no_checkpoint_may_be_replaced(corpus: Path) -> None:
    (corpus / "train.tgt").write_text("only one\n")
    with pytest.raises(DataError, match=r"has 37 lines but .* has 1"):
        train(corpus / "recipe.toml", out=corpus / "out", seed=3, quiet=True)
    write_corpus(corpus)
    train(corpus / "recipe.toml", out=corpus / "out", seed=4, quiet=True)


def test_a_folder_with_other_things_is_left_alone(corpus: Path) -> None:
    with pytest.raises(FolderError, match="holds other things"):
        train(corpus / "recipe.toml", out=corpus, quiet=True)
    (corpus / "file").write_text("x")
    with pytest.raises(FolderError, match="cannot be the folder of a run"):
        train(corpus / "recipe.toml", out=corpus / "file", quiet=True)
    with pytest.raises(FolderError, match="is not the folder of a run"):
        export(RunFolder(corpus), "last", 1)


def test_validation_files_tags_and_weights(corpus: Path) -> None:
    (corpus / "v.tsv").write_text("12\t21\n345\t543\n12\t12\n")
    (corpus / "more.jsonl").write_text('{"source": "5", "target": "5"}\n{"source": "6", "target": "6"}\n')
    extra = '[[data.corpora]]\npairs = "more.jsonl"\nweight = 2\ntag = "same"\n'
    changed = RECIPE.replace("valid_lines = 5", 'valid_pairs = "v.tsv"\nseveral_answers = true')
    (corpus / "recipe.toml").write_text(changed + extra + '[evaluation]\nmetrics = ["exact", "per"]\n')
    seen: list[Mapping[str, Any]] = []
    translator = train(
        corpus / "recipe.toml",
        out=corpus / "out",
        quiet=True,
        observers=[lambda event, facts: seen.append(facts["figures"]) if event == "validation" else None],
    )
    assert set(seen[0]) == {"loss", "perplexity", "exact", "PER"}
    assert len(translator(["12"], tag="same")) == 1
    with pytest.raises(regard.errors.InputError, match="no tag 'other'"):
        translator(["12"], tag="other")


def test_the_best_or_the_mean_of_the_last_is_exported(corpus: Path) -> None:
    average = RECIPE.replace(
        "updates = 3", 'updates = 6\naverage = "last"\naverage_count = 2\nkeep_last = 3\nkeep_best = 1'
    )
    (corpus / "recipe.toml").write_text(average)
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    assert export(RunFolder(corpus / "out"), "last", 2, corpus / "again") == [4, 6]
    assert (corpus / "again" / "model.safetensors").read_bytes() == weights(corpus / "out")
    assert len(export(RunFolder(corpus / "out"), "best", 1, corpus / "best")) == 1
    with pytest.raises(RecipeError, match="must be at least 1"):
        export(RunFolder(corpus / "out"), "last", 0)


def test_evaluation_by_the_recipe_or_by_other_words(corpus: Path) -> None:
    (corpus / "t.tsv").write_text("12\t21\n\t\n345\t543\n")
    (corpus / "recipe.toml").write_text(RECIPE.replace("valid_lines = 5", 'valid_lines = 5\ntest_pairs = "t.tsv"'))
    train(corpus / "recipe.toml", out=corpus / "out", quiet=True)
    report = evaluate(corpus / "out", data=corpus, output=corpus / "outputs").first
    assert [figure.name for figure in report.figures] == ["BLEU", "chrF", "exact"]
    lines = (corpus / "outputs").read_text().split("\n")
    assert (len(lines), lines[1]) == (4, "")
    again = evaluate(corpus / "out", pairs=corpus / "t.tsv", metrics=["per", "cer"], beam=1).first
    assert [figure.name for figure in again.figures] == ["PER", "CER"]
    with pytest.raises(RecipeError, match="did you mean 'bleu'"):
        evaluate(corpus / "out", pairs=corpus / "t.tsv", metrics=["blue"])
    with pytest.raises(RecipeError, match="the source needs its reference"):
        evaluate(corpus / "out", source=corpus / "train.src")
    with pytest.raises(RecipeError, match="give it alone"):
        evaluate(corpus / "out", source=corpus / "train.src", pairs=corpus / "t.tsv")
