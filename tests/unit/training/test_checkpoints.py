"""The newest whole checkpoint is chosen, damage is told with what is whole, and a failing save leaves one to resume."""

from __future__ import annotations

import errno
import itertools
import json
import os

import pytest
import torch

from regard import storage
from regard.errors import DamagedError, FolderError, RegardError
from regard.training import Checkpoints, average
from regard.training.weights import to_bytes


def files(value: float) -> dict[str, bytes]:
    state = {"state": {"best": [[1.0, 3]], "saved": [2, 4]}}
    return {
        "model.safetensors": to_bytes({"x": torch.full((3,), float(value))}),
        "state.json": json.dumps(state).encode(),
    }


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints")
    for update in (2, 3, 4):
        made.save(update, files(update), keep=[2, 3])
    return made


def test_what_is_kept(checkpoints):
    assert checkpoints.updates() == [2, 3, 4]
    checkpoints.save(123_456_789, files(0), keep=[3])
    assert checkpoints.updates() == [3, 123_456_789]
    assert checkpoints.newest().folder == checkpoints.path(123_456_789)


def test_none_yet(tmp_path):
    empty = Checkpoints(tmp_path / "nowhere")
    assert empty.newest() is None
    assert empty.updates() == []
    with pytest.raises(FolderError, match="holds no checkpoint yet"):
        empty.chosen("last", 1)


@pytest.mark.parametrize(
    ("pointer", "newest"),
    [
        (b"update-00000003\n", 3),
        (b"update-00000009\n", 4),  # its folder was deleted
        (b"", 4),
        (b"\xff\x00", 4),
        (b"../update-00000003", 4),
        (None, 4),
    ],
)
def test_the_pointer(checkpoints, pointer, newest):
    path = checkpoints.folder / "latest"
    path.unlink() if pointer is None else path.write_bytes(pointer)
    assert checkpoints.newest().folder == checkpoints.path(newest)


def test_damage_is_told_with_what_is_whole(checkpoints):
    (checkpoints.path(4) / "model.safetensors").write_bytes(b"cut")
    (checkpoints.path(3) / "manifest.json").unlink()
    with pytest.raises(DamagedError) as caught:
        checkpoints.newest()
    assert "update-00000004/model.safetensors is damaged" in str(caught.value)
    assert f"{checkpoints.path(2)} is whole: to go on from it, delete the folder {checkpoints.path(4)}" in str(
        caught.value
    )
    storage.remove(checkpoints.path(4))
    storage.remove(checkpoints.path(3))
    assert checkpoints.newest().folder == checkpoints.path(2)
    (checkpoints.path(2) / "state.json").unlink()
    with pytest.raises(DamagedError, match="No earlier checkpoint is whole: to start again, delete the folder"):
        checkpoints.newest()


def test_which_are_best_or_last(checkpoints):
    assert checkpoints.chosen("best", 2) == [3]
    assert checkpoints.chosen("last", 2) == [2, 4]
    assert checkpoints.chosen("last", 1) == [4]


def test_average(checkpoints):
    assert checkpoints.average([4, 3])["x"].tolist() == [3.5] * 3
    assert average([checkpoints.path(2), checkpoints.path(3)])["x"].tolist() == [2.5] * 3
    (checkpoints.path(2) / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(DamagedError, match=r"update-00000002/model\.safetensors"):
        checkpoints.average([2, 3])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("name", ["open", "write", "fsync", "replace", "makedirs", "unlink", "rmdir"])
def test_a_failing_save_leaves_one_to_go_on_from(tmp_path, monkeypatch, name, error):
    """The n-th call of each kind fails, for n = 1, 2, ... until all succeed."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for n in itertools.count(1):
        monkeypatch.setattr(storage.os, "fsync", lambda handle: None)
        for update in (2, 3):
            checkpoints.save(update, files(update), keep=[2])
        calls = itertools.count(1)
        real = getattr(os, name)

        def fail(*args, real=real, calls=calls, n=n, **kwargs):
            if next(calls) == n:
                raise OSError(error, os.strerror(error))
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            try:
                checkpoints.save(4, files(4), keep=[3])
            except RegardError as failure:
                assert "checkpoints" in str(failure)
            else:
                break
        assert checkpoints.newest().folder in (checkpoints.path(3), checkpoints.path(4))
        checkpoints.recover()
        checkpoints.newest().check()
        assert not [path for path in checkpoints.folder.iterdir() if ".tmp-" in path.name]
    assert n > 1
    assert checkpoints.updates() == [3, 4]
