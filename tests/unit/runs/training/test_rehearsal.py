"""What a dry run, a range test and a replay tell, and that none of them leaves anything behind."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import regard.runs.training.train
from regard.cli import run
from regard.errors import TrainingError
from regard.models import Transformer
from regard.runs.recipes.recipe import check
from regard.runs.training.train import train
from unit.runs.toys import write_bundle, write_corpus


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path


def everything(folder: Path) -> list[Path]:
    """All files, and all folders but the one that torch's compiler makes wherever temporary files go."""
    return sorted(path for path in folder.rglob("*") if not path.name.startswith("torchinductor_"))


def test_a_dry_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(place)
    assert run(["train", "recipe.toml", "--dry-run", "--minutes", "3"]) == 0
    assert everything(place) == before
    told = capsys.readouterr()
    assert told.err.startswith("loading PyTorch …\nreading ")
    parts = told.out.split("\n# ")
    assert [part.split("\n")[0].removeprefix("# ") for part in parts] == [
        "The recipe in effect", "The model", "What it takes", "Examples, as the model sees them", "Warnings",
    ]  # fmt: skip
    import tomllib

    assert check(tomllib.loads(parts[0].partition("\n")[2])).training.minutes == 3
    assert re.search(r"Seq2SeqObjective +[\d,]+ +[\d,]+", parts[1])
    assert re.search(r"memory: about [\d,]+ MB for an update \(weights 0, gradients 0, optimiser 0, kept", parts[2])
    assert re.search(
        r"time: [\d.e-]+ s an update \([\d,]+ target tokens/s, the median of 9 updates\), \d+ updates an epoch",
        parts[2],
    )
    assert re.search(r"one forward of a batch of \d+ pairs, \d+ source and \d+ target tokens long", parts[1])
    assert "\nvocabulary: 14 source entries, 14 target entries\n" in parts[1]
    assert "`updates` ends it after about 3 updates" in parts[2]
    source, target = "train.src", "train.tgt"
    last = [(place / name).read_text().split("\n") for name in (source, target)]
    examples = parts[3].split("\n\n")[1:]
    assert len([one for one in examples if one]) == 10
    first = examples[0].split("\n")
    text, _, reverse = first[0].partition("1. ")[2].partition("  →  ")
    assert text in last[0] and reverse == text[::-1]
    assert first[1] == f"   source, {len(text) + 1} tokens: {' '.join(text)} </s>"
    assert first[3] == f"   decoder reads, {len(text) + 1} tokens: <s> {' '.join(reverse)}"
    assert first[5] == f"   and predicts, {len(text) + 1} tokens: {' '.join(reverse)} </s>"
    assert first[2].endswith(" 3") and first[4].partition("ids: ")[2].startswith("2 ")


def test_a_range_test(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    before = everything(place)
    assert run(["train", "recipe.toml", "--lr-range", "--plot", "rates.svg", "-q"]) == 0
    assert set(everything(place)) - set(before) == {place / "rates.svg"}
    told = capsys.readouterr()
    rows = [line.split() for line in told.out.split("\n\n")[0].split("\n")]
    assert rows[0] == ["rate", "loss"] and rows[1][0] == "1.00e-06" and 10 < len(rows) <= 26
    assert re.search(r"suggested: learning_rate = [\d.]+e-\d+, .* the recipe has 1.0e-02\n", told.out)
    assert told.err == ""
    assert run(["train", "recipe.toml", "--plot", "rates.svg"]) == 2
    assert run(["train", "recipe.toml", "--lr-range", "--plot", "rates.x", "-q"]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "rates.x: not a kind of picture" in told.err, "told before the test"
    for picture in ("nowhere/rates.svg", "train.src"):
        source = ["--source", "train.src", "--target", "train.tgt"]
        assert run(["train", "recipe.toml", *source, "--lr-range", "--plot", picture]) == 2
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith(f"regard: {picture}") and told.err.count("\n") == 1


def test_a_failed_update_is_replayed(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Transformer] = []
    build = regard.runs.training.train.build
    monkeypatch.setattr(regard.runs.training.train, "build", lambda spec: built.append(build(spec)) or built[-1])

    def poison(event: str, facts: Mapping[str, Any]) -> None:
        if event == "update" and facts["update"] == 1:  # too large for what is added to it
            built[0].encoder.layers[0].feed_forward.inner.weight.data.fill_(3e38)

    with pytest.raises(TrainingError, match=r"update 2 was not made.*regard train --replay (\S+)") as caught:
        train("recipe.toml", out="out", quiet=True, observers=[poison])
    path = str(caught.value).rpartition("--replay ")[2]
    assert run(["train", "--replay", path]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "update 2 was not made: the output of model.encoder.layers.0.feed_forward.inner is not finite"
    )
    assert re.search(r"a batch of \d+ examples and \d+ target tokens; the first of them:\n  \d+: (\d+)  →  \d+\n", told)
    *_, before, broken, empty, last, _ = told.split("\n")
    assert "not finite" not in before and empty == ""
    assert re.search(r"\(\d+ not finite\) +the output of model\.encoder\.layers\.0\.feed_forward\.inner", broken)
    assert last.startswith("the output of model.encoder.layers.0.feed_forward.inner is the first that is not finite")


def test_what_cannot_be_replayed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--replay", "nowhere"]) == 2
    assert "there is no file nowhere" in capsys.readouterr().err
    Path("file").write_text("x")
    assert run(["train", "--replay", "file"]) == 2
    assert "is not a failed update" in capsys.readouterr().err


def test_curves_for_tensorboard(place: Path) -> None:
    pytest.importorskip("tensorboard")
    assert run(["train", "recipe.toml", "--out", "out", "--tensorboard", "-q"]) == 0
    assert len(list(Path("out/tensorboard").iterdir())) == 1


def test_a_dry_run_that_starts_from_a_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(place / "old")
    text = (place / "recipe.toml").read_text()
    (place / "recipe.toml").write_text(text[text.index("[data]") :].replace("= 53", "= 29"))
    assert run(["train", "recipe.toml", "--dry-run", "--init", "old"]) == 0
    told = capsys.readouterr()
    assert "starting from the weights and the vocabulary of old" in told.err
    assert 'init = "old"' in told.out and "d_model = 8" in told.out
