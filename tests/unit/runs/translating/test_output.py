"""Where results go, and where they must not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runs.evaluating.evaluate import evaluate
from regard.runs.translating.filter import FilterOptions
from regard.runs.translating.output import refuse_output, refuse_output_folder, write_result
from regard.runs.translating.translate import translate
from regard.storage import seal


def test_a_link_leads_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    write_result(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept").read_text() == "new"


def test_what_is_no_file_takes_the_bytes_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_result(pipe, b"12")
    assert os.read(reader, 3) == b"12"
    os.close(reader)
    assert pipe.is_fifo()


def test_the_files_of_a_model_are_no_output(tmp_path: Path) -> None:
    seal(tmp_path / "model", {"config.json": b"{}"})
    for name in ("config.json", "new.txt"):
        with pytest.raises(InputError, match="folder of a model"):
            refuse_output(tmp_path / "model" / name, [])


def test_what_is_read_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "cases.npz").write_bytes(b"1")
    with pytest.raises(InputError, match="is the input as well"):
        refuse_output(tmp_path / "cases.npz", [tmp_path / "cases.npz"])


def test_a_folder_and_a_file_in_none_are_no_output(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no" / "out"):
        with pytest.raises(InputError, match="cannot be written; name a file in a folder that exists"):
            refuse_output(place, [])


@pytest.mark.parametrize("exists", [True, False])
def test_without_the_right_to_write_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    place = tmp_path / "out"
    if exists:
        place.write_text("old")
    asked: list[Path] = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append(path))  # None: no; the tests' user may be root
    with pytest.raises(InputError, match="out: cannot be written; you have not the right to"):
        refuse_output(place, [])
    assert asked == [place if exists else tmp_path]


def test_a_folder_of_results_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    for folder in (tmp_path, tmp_path / "new" / "deep"):
        refuse_output_folder(folder)
        assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    for folder in (tmp_path / "file", tmp_path / "file" / "deep"):
        with pytest.raises(InputError, match=rf"^{folder}: cannot be a folder, because {tmp_path / 'file'} is a file"):
            refuse_output_folder(folder)
    seal(tmp_path / "model", {"config.json": b"{}"})
    with pytest.raises(InputError, match="model is the folder of a model or a checkpoint"):
        refuse_output_folder(tmp_path / "model")


def test_a_folder_without_the_right_to_write_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append(path))  # None: no; the tests' user may be root
    with pytest.raises(InputError, match="deep: cannot be written; you have not the right to"):
        refuse_output_folder(tmp_path / "new" / "deep")
    assert asked == [tmp_path]


def test_from_python_too_a_place_is_looked_for_first(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "out"
    with pytest.raises(InputError, match="cannot be written"):
        translate(FilterOptions(("nobody",)), output=nowhere)
    with pytest.raises(InputError, match="cannot be written"):
        evaluate("nobody", source="s", references=["r"], output=nowhere)
