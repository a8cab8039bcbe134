"""The demo on a dictionary of a few words, and the doctor: that they run, and what they leave and say."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import InputError, TrainingError
from regard.runs import demo as demo_room
from regard.runs import doctor
from regard.runs.dictionary import part_of


def test_demo_learns_shows_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {
        f"{first}{second}at": ((first.upper(), "AE", "T"),)
        for first in "bcdfghjklmnpqrstvwxz"
        for second in "aeiou'lrhwy"
    }
    assert {part_of(word) for word in words} == {"train", "valid", "test"}
    monkeypatch.setattr(demo_room, "read_dictionary", lambda: words)
    small = "d_model = 8\nnum_heads = 2\nd_ff = 11\nencoder_layers = 1\ndecoder_layers = 1\n"
    recipe = demo_room.RECIPE.replace("encoder_layers = 3\ndecoder_layers = 3\n", small)
    monkeypatch.setattr(demo_room, "RECIPE", recipe.replace("minutes = 5", "updates = 2"))
    lines = list(demo_room.demo(tmp_path / "demo", minutes=0.2))

    assert lines[1].startswith("WER ") and lines[2].startswith("PER ")
    unseen = [word for word in words if part_of(word) == "test"]
    assert [line.split()[1] for line in lines if line[:1] in "✓✗" and line] == unseen[: demo_room.SHOWN_WORDS]
    page = (tmp_path / "demo" / "attention.html").read_text(encoding="utf-8")
    assert all(word in page for word in unseen[: demo_room.SHOWN_WORDS])
    trained = (tmp_path / "demo" / "words" / "train.tsv").read_text(encoding="utf-8").split("\n")
    assert not {line.split("\t")[0] for line in trained} & set(unseen)
    assert "BSD" in capsys.readouterr().err


def test_a_demo_that_cannot_be_kept_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_room, "read_dictionary", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be a folder, because .*file is a file"):
        next(demo_room.demo(tmp_path / "file" / "demo", 1.0))


def test_a_model_that_does_not_learn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_UPDATES", 2)
    with pytest.raises(TrainingError, match=r"did not: 2 updates in \d+ s, \d+% of new strings copied"):
        doctor.examine("cpu")


def test_the_facts_name_the_versions() -> None:
    facts = doctor.facts()
    assert facts["regard"] and facts["torch"][0].isdigit() and "torch uses" in facts["processor"]
    assert doctor._version("no-such-package") == "not installed"


@pytest.mark.slow
def test_copying_is_learned() -> None:
    assert "copied" in doctor.examine("cpu")
