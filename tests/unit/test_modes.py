"""Whoever looks leaves each part in the mode it was in."""

from __future__ import annotations

import pytest
from torch import nn

from regard.modes import evaluation_mode


def test_each_part_is_in_its_own_mode_again_whatever_happens() -> None:
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Dropout()))
    module[1][0].eval()
    before = [part.training for part in module.modules()]
    with pytest.raises(ZeroDivisionError), evaluation_mode(module):
        assert not any(part.training for part in module.modules())
        raise ZeroDivisionError
    assert [part.training for part in module.modules()] == before
