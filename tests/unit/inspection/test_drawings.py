"""Matrices as text."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.inspection import draw_mask, draw_weights


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
