"""Nothing that exists is lost to an output: not the input, not an older result, not a folder of other things."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from regard.cli import run
from unit.runs.toys import RECIPE, write_bundle, write_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_bundle(tmp_path_factory.mktemp("model") / "m"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_corpus(folder)
    (folder / "recipe.toml").write_text(RECIPE)
    assert run(["train", str(folder / "recipe.toml"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


@pytest.mark.parametrize("source", [None, b"12\n\xff\n"])
def test_an_older_translation_stays_when_the_input_is_of_no_use(
    model: str, tmp_path: Path, source: bytes | None
) -> None:
    old = tmp_path / "out"
    old.write_text("precious")
    if source is not None:
        (tmp_path / "in").write_bytes(source)
    assert run(["translate", model, "-i", str(tmp_path / "in"), "-o", str(old)]) == 2
    assert old.read_text() == "precious"


def test_no_lines_give_an_empty_file(model: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"")
    (tmp_path / "out").write_text("old")
    assert run(["translate", model, "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_the_input_is_no_output_even_through_stdin(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("12\n")
    with lines.open() as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert run(["translate", model, "-o", str(lines)]) == 2
    assert lines.read_text() == "12\n"
    assert "is the input as well" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "nobody", "-o", "no/out"],
        ["score", "nobody", "--pairs", "p.tsv", "-o", "no/out"],
        ["evaluate", "nobody", "-s", "s", "-r", "r", "-o", "no/out"],
        ["inspect", "nobody", "text", "--html", "no/out"],
        ["classify", "nobody", "s.npz", "--explain", "no/out"],
        ["train", "nobody.toml", "--lr-range", "--plot", "no/out"],
        ["ablate", "nobody.toml", "--vary", "model.tie=none", "-o", "file/out"],
    ],
)
def test_what_has_no_place_is_refused_before_anything_is_opened(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert run(words) == 2
    assert "/out: cannot be " in capsys.readouterr().err


@pytest.mark.parametrize("which", ["source", "reference"])
def test_an_evaluation_does_not_overwrite_what_it_reads(
    model: str, tmp_path: Path, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("source", "reference"):
        (tmp_path / name).write_text("12\n")
    words = ["-s", str(tmp_path / "source"), "-r", str(tmp_path / "reference"), "-o", str(tmp_path / which)]
    assert run(["evaluate", model, *words]) == 2
    assert (tmp_path / which).read_text() == "12\n"
    assert "is the input as well" in capsys.readouterr().err


def test_an_average_replaces_the_model_of_its_run_and_nothing_else(
    trained: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True)
    (mine / "thesis.txt").write_text("x")
    for out in (mine, mine / "thesis.txt", trained, trained / "checkpoints"):
        before = sorted(out.iterdir()) if out.is_dir() else out.read_text()
        assert run(["average", str(trained), "--last", "1", "-o", str(out)]) == 2
        assert (sorted(out.iterdir()) if out.is_dir() else out.read_text()) == before
        assert "holds other things than a model" in capsys.readouterr().err
    before = (Path(model) / "model.safetensors").read_bytes()
    assert run(["average", str(trained), "--last", "1", "-o", model]) == 2
    assert (Path(model) / "model.safetensors").read_bytes() == before
    assert "holds a model already; remove it" in capsys.readouterr().err
    for out in (tmp_path / "new", trained / "checkpoints" / ".." / "model"):
        assert run(["average", str(trained), "--last", "1", "-o", str(out)]) == 0


def test_a_run_without_its_pointer_keeps_its_recipe(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trained / "checkpoints" / "latest").unlink()
    before = (trained / "recipe.toml").read_bytes()
    words = ["train", str(trained.parent / "recipe.toml"), "--out", str(trained), "--quiet"]
    assert run([*words, "--seed", "7"]) == 2
    assert (trained / "recipe.toml").read_bytes() == before
    assert "seed" in capsys.readouterr().err
