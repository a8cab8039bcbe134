"""The device of a name, and of a process among several."""

from __future__ import annotations

import pytest
import torch

from regard.device import best_device
from regard.errors import RecipeError


@pytest.mark.parametrize(
    ("name", "cuda", "mps", "rank", "device"),
    [
        ("auto", False, False, None, "cpu"),
        ("auto", False, True, None, "mps"),
        ("auto", True, True, None, "cuda"),
        ("auto", True, False, "3", "cuda:3"),
        ("auto", False, True, "1", "cpu"),  # several processes cannot share it
        ("cuda", True, False, "3", "cuda:3"),
        ("cuda:1", True, False, "3", "cuda:1"),
        ("cpu", True, False, "3", "cpu"),
    ],
)
def test_each_process_has_its_own(
    name: str, cuda: bool, mps: bool, rank: str | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)  # all of them take a tensor
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert best_device(name) == torch.device(device)


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "foo", "cpu:x"])
def test_one_that_is_not_here_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RecipeError, match=f"device '{name}' cannot be used here"):
        best_device(name)


def test_a_number_beyond_those_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: invalid device ordinal\nand how to find out more")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", refuse)
    with pytest.raises(RecipeError, match=r"^device 'cuda:7' cannot be used here: CUDA error: invalid device ordinal$"):
        best_device("cuda:7")
