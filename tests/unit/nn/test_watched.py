"""Whoever may see or change what a part makes is noticed, each kind by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from regard.nn.watched import is_watched

OF_A_PART: list[Callable[[nn.Module], Any]] = [
    lambda part: part.register_forward_hook(lambda *_: None),
    lambda part: part.register_forward_pre_hook(lambda *_: None),
    lambda part: part.register_full_backward_hook(lambda *_: None),
    lambda part: part.register_full_backward_pre_hook(lambda *_: None),
]

OF_EVERY_PART: list[Callable[[Any], Any]] = [
    torch_module.register_module_forward_hook,
    torch_module.register_module_forward_pre_hook,
    torch_module.register_module_full_backward_hook,
    torch_module.register_module_full_backward_pre_hook,
]


@pytest.mark.parametrize("watch", OF_A_PART)
def test_a_hook_on_one_part(watch: Callable[[nn.Module], Any]) -> None:
    one, other = nn.Identity(), nn.Identity()
    handle = watch(other)
    assert is_watched(other) and not is_watched(one)
    handle.remove()
    assert not is_watched(other)


@pytest.mark.parametrize("watch", OF_EVERY_PART)
def test_a_hook_on_every_part(watch: Callable[[Any], Any]) -> None:
    handle = watch(lambda *_: None)
    try:
        assert is_watched(nn.Identity())
    finally:
        handle.remove()
    assert not is_watched(nn.Identity())


def test_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert is_watched(nn.Identity())


def test_what_torch_calls_otherwise_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch_module, "_global_forward_hooks")
    assert is_watched(nn.Identity())
