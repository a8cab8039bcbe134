"""Matrices as text."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.inspection import draw_ledger, draw_mask, draw_walk, draw_weights, ledger, trace


def test_a_causal_mask_is_a_triangle() -> None:
    assert draw_mask(torch.ones(3, 3).tril().bool()) == "■··\n■■·\n■■■"


def test_a_large_mask_is_thinned_and_says_so() -> None:
    drawn = draw_mask(torch.ones(100, 90).tril().bool()).split("\n")
    assert drawn[0] == "■" + "·" * 29
    assert drawn[-1] == "(one in 3 rows and columns of 100 × 90)"


def test_weights_stand_below_their_tokens_whatever_their_script() -> None:
    weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    assert draw_weights(weights, ["W", "注意"], ["▁a", "dog"]).split("\n") == [
        "       ▁a  dog",
        "   W 1.00",
        "注意 0.25 0.75",
    ]
    with pytest.raises(InputError, match=r"1 rows and 2 columns were named, but weights are \[2, 2\]"):
        draw_weights(weights, ["W"], ["a", "b"])


def test_the_walk_and_the_ledger_as_tables() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    nn.init.ones_(model[0].weight)
    drawn = draw_walk(trace(model, torch.tensor([[1.0, 2.0]]), sizes={"D": 2, "F": 3})).split("\n")
    assert drawn[0].split() == ["module", "in", "out", "type", "mean", "std", "min", "max", "bad", "ms"]
    assert drawn[2].startswith("  0         [B=1, D=2]  [B=1, F=3]  float32     3    0    3    3")
    assert drawn[3].endswith("max(0, x)  (section 3.3)")
    assert len(draw_walk(trace(model, torch.ones(1, 2)), depth=0).split("\n")) == 2

    assert draw_ledger(ledger(model, torch.ones(1, 2))).split("\n") == [
        "module      parameters  bytes  FLOPs  kept for backward",
        "Sequential           6     24     12                 20",
        "  0                  6     24     12                  8",
        "  1                  0      0      0                 12",
    ]
    assert draw_ledger(ledger(model), depth=0) == "module      parameters  bytes\nSequential           6     24"
