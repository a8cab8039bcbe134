"""Matrices as text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.inspection import (
    choices,
    draw_choices,
    draw_gradients,
    draw_ledger,
    draw_mask,
    draw_masks,
    draw_walk,
    draw_weights,
    ledger,
    trace,
)


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
    with pytest.raises(InputError, match=r"1 row and 2 columns were named, but weights are \[2, 2\]"):
        draw_weights(weights, ["W"], ["a", "b"])


def test_the_walk_as_a_table() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    nn.init.ones_(model[0].weight)
    walk = trace(model, torch.tensor([[1.0, 2.0]]), sizes={"D": 2, "F": 3})
    drawn = draw_walk(walk).split("\n")
    assert drawn[0].split() == ["module", "in", "→", "out", "mean", "std", "min", "max", "ms", "memory"]
    assert drawn[2].startswith("  Linear 1  [B=1, D=2] → [B=1, F=3]     3    0    3    3")
    assert drawn[3].startswith("  ReLU 2    [B=1, F=3]  ")
    assert drawn[3].endswith("12 bytes   max(0, x)  (section 3.3)")
    assert drawn[4] == "All of it is float32."
    assert len(draw_walk(walk, depth=0).split("\n")) == 3


def test_a_narrow_terminal_loses_the_least_needed_columns_and_is_told() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    nn.init.ones_(model[0].weight)
    seen = trace(model, torch.tensor([[1.0, 2.0]]), sizes={"D": 2})
    walk = replace(seen, visits=tuple(replace(visit, seconds=0.001) for visit in seen.visits))  # times vary in width
    wide = draw_walk(walk).split("\n")
    for width in (30, 43, 53, 61):
        narrow = draw_walk(walk, width=width).split("\n")
        assert max(map(len, narrow[:4])) <= width
        assert narrow[-1].startswith(f"Left out at {width} columns: memory")
        titles = narrow[0].split()
        assert titles == wide[0].split()[: len(titles)]  # what is needed most stands first
    assert draw_walk(walk, width=500) == "\n".join(wide)
    assert "formulas" in narrow[-1]


def test_a_wide_head_goes_on_below() -> None:
    drawn = draw_weights(torch.eye(2, 5), ["a", "b"], ["c1", "c2", "c3", "c4", "c5"], width=13).split("\n")
    assert drawn == ["    c1   c2", "a 1.00", "b      1.00", "", "    c3   c4", "a", "b", "", "    c5", "a", "b"]


def test_bad_numbers_and_mixed_types_have_columns_of_their_own() -> None:
    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.double() / 0

    drawn = draw_walk(trace(nn.Sequential(nn.Identity(), Cast()), torch.tensor([[1.0, 0.0]]))).split("\n")
    assert drawn[0].split()[4:6] == ["type", "mean"] and "bad" in drawn[0].split()
    assert "float64" in drawn[3] and drawn[3].split()[-4:-2] != [] and "  2  " in drawn[3]


def test_equal_masks_are_drawn_once_below_the_names_of_all() -> None:
    triangle, square = torch.ones(2, 2).tril().bool(), torch.ones(2, 2).bool()
    masks = {"d.0.self": triangle, "d.0.cross": square, "d.1.self": triangle, "d.2.self": triangle, "e": square}
    assert draw_masks(masks).split("\n") == ["d:1-3.self", "■·", "■■", "d:1.cross, e", "■■", "■■"]


def test_how_logits_became_tokens() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)], [math.log(3.0), 0.0]])
    drawn = draw_choices(choices(logits, ["<s>", "是"], [1, 1], lambda ids: [["no", "yes"][i] for i in ids]))
    assert drawn.split("\n") == [
        "after  came          logit  might have come",
        "<s>    yes   75.0 %    1.1  no 25.0 %",
        "是     yes   25.0 %      0  no 75.0 %",
    ]


def test_gradients_as_a_table() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
    drawn = draw_gradients(trace(model, torch.tensor([[3.0, 4.0]]), loss=lambda y: y.sum()))
    assert drawn.split("\n") == ["parameter  shape  norm  units  dead  bad", ":1.weight  3 × 2  7.07      3     1"]


def test_the_ledger_as_a_table() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU())
    assert draw_ledger(ledger(model, torch.ones(1, 2))).split("\n") == [
        "module      parameters  bytes  FLOPs  kept for backward",
        "Sequential           6     24     12                 20",
        "  Linear 1           6     24     12                  8",
        "  ReLU 2             0      0      0                 12",
    ]
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    assert draw_ledger(ledger(model)).endswith("  Linear 2           0      0  shared with Linear 1")
    assert (
        draw_ledger(ledger(nn.Sequential(nn.Linear(2, 3, bias=False))), depth=0)
        == "module      parameters  bytes\nSequential           6     24"
    )
