"""Columns on disk are whole or not there."""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.data.columns import build_columns, open_columns
from regard.errors import TrainingError


def build(folder: Path, values: list[int]) -> None:
    with build_columns(folder) as builder:
        column, empty, text = (builder.column(n, d) for n, d in [("a", "uint16"), ("b", "int64"), ("c", "uint8")])
        column.append(values[0])
        column.extend(values[1:])
        text.write(b"text")
        builder.facts["x"] = [1, "é"]
        assert empty.dtype == np.int64


@pytest.mark.parametrize("count", [1, 7, 200_003])
def test_columns_come_back(tmp_path: Path, count: int) -> None:
    values = [i % 65_536 for i in range(count)]
    build(tmp_path / "deep" / "x", values)
    columns = open_columns(tmp_path / "deep" / "x")
    assert columns is not None
    assert columns["a"].tolist() == values
    assert columns["b"].tolist() == []
    assert columns["c"].tobytes() == b"text"
    assert columns.facts == {"x": [1, "é"]}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x"]


def test_columns_travel_by_name(tmp_path: Path) -> None:
    build(tmp_path / "x", list(range(50_000)))
    columns = open_columns(tmp_path / "x")
    sent = pickle.dumps(columns)
    assert len(sent) < 1000
    assert (pickle.loads(sent)["a"] == columns["a"]).all()


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), build_columns(tmp_path / "x") as builder:
        builder.column("a", "int64").append(1)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert open_columns(tmp_path / "x") is None


def test_a_build_that_is_killed_leaves_nothing_for_long(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from regard.data.columns import build_columns
with build_columns(Path({str(tmp_path / "x")!r})) as builder:
    builder.column("a", "int64").append(1)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert [path.name.startswith(".x.") for path in tmp_path.iterdir()] == [True]
    assert open_columns(tmp_path / "x") is None
    build(tmp_path / "x", [3])
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_build_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    others = tmp_path / f".x.{platform.node()}.{os.getppid()}"
    others.mkdir()
    build(tmp_path / "x", [3])
    assert others.exists()


@pytest.mark.parametrize("late", [False, True])
def test_the_slower_of_two_builds_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """``late``: the other process finishes in the moment between looking and renaming."""
    folder, remove = tmp_path / "x", shutil.rmtree

    def other_process() -> None:
        monkeypatch.undo()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            build(folder, [3])

    def remove_and_be_overtaken(path: Path, ignore_errors: bool) -> None:
        remove(path, ignore_errors=ignore_errors)
        other_process()

    with build_columns(folder) as builder:
        builder.column("a", "int64").append(7)
        if late:
            monkeypatch.setattr(shutil, "rmtree", remove_and_be_overtaken)
        else:
            other_process()
    columns = open_columns(folder)
    assert columns is not None
    assert columns["a"].tolist() == [3]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_is_not_whole_is_built_anew(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    for damage in (
        lambda: (folder / "a").write_bytes(b"\0\0"),  # one number of two
        lambda: (folder / "a").write_bytes(b"\0"),
        lambda: (folder / "a").unlink(),
        lambda: (folder / "columns.json").write_text("{"),
        lambda: (folder / "columns.json").write_text('{"version": 1}'),
        lambda: (folder / "columns.json").write_text("[]"),
    ):
        build(folder, [3, 5])
        damage()
        assert open_columns(folder) is None
        build(folder, [3, 5])
        assert open_columns(folder) is not None


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(TrainingError, match=r"cache folder .*file cannot be written"),
        build_columns(tmp_path / "file" / "x"),
    ):
        pass
