"""Validation and test sets: aligned files, several references, several answers to one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data import Pair
from regard.errors import DataError
from regard.runs.recipes.recipe import DataOptions
from regard.runs.text_set import TextSet, read_aligned, read_set


def write(path: Path, *lines: str) -> str:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(path)


def test_several_files_are_several_references(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "x", ""), write(tmp_path / "b", "p", "q"), write(tmp_path / "c", "r", "s")]
    assert read_aligned(files[0], files[1:]) == TextSet(["x", ""], [("p", "r"), ("q", "s")], ["", ""])


def test_unequal_files_are_told_with_all_counts(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "x", "y"), write(tmp_path / "b", "p"), write(tmp_path / "c", "r", "s")]
    with pytest.raises(DataError, match=r"a has 2, .*b has 1, .*c has 2"):
        read_aligned(files[0], files[1:])


def test_a_repeated_source_may_list_further_answers() -> None:
    pairs = [Pair("tear", "T IH R"), Pair("cat", "K AE T"), Pair("tear", "T EH R"), Pair("tear", "T IH R")]
    grouped = TextSet.of(iter(pairs), several_answers=True)
    assert grouped == TextSet(["tear", "cat"], [("T IH R", "T EH R"), ("K AE T",)], ["", ""])
    alone = TextSet.of(iter(pairs), several_answers=False)
    assert (len(alone.sources), alone.references[0]) == (4, ("T IH R",))
    assert grouped.first(1) == TextSet(["tear"], [("T IH R", "T EH R")], [""])


def test_the_same_source_with_another_tag_is_another_line() -> None:
    pairs = [Pair("cat", "chat", "fr"), Pair("cat", "Katze", "de")]
    assert TextSet.of(iter(pairs), several_answers=True).tags == ["fr", "de"]


def test_the_test_set_is_found_in_the_data_folder(tmp_path: Path) -> None:
    write(tmp_path / "t.tsv", "1\tcat\tK AE T", "2\tdog\tD AO G")
    options = DataOptions(test_pairs="t.tsv", columns=(2, 3), several_answers=True, pairs="x.tsv")
    assert read_set(options, "test", tmp_path).references == [("K AE T",), ("D AO G",)]
    write(tmp_path / "s", "a"), write(tmp_path / "r1", "b"), write(tmp_path / "r2", "c")
    options = DataOptions(test_source="s", test_target=("r1", "r2"))
    assert read_set(options, "test", tmp_path).references == [("b", "c")]
    with pytest.raises(DataError, match="the recipe names no valid files"):
        read_set(options, "valid", tmp_path)
