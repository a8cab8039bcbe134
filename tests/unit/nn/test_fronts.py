"""Convolutions and windows before the embedding: by hand, and blind to padding.

Everything runs in float64, so that equal means equal to 1e-12.
"""

from __future__ import annotations

import pytest
import torch

from regard.errors import ShapeError
from regard.nn import Convolutions, Windows, num_windows

FRAMES = torch.arange(1.0, 15.0, dtype=torch.float64).reshape(1, 7, 2)


def test_windows_by_hand() -> None:
    windows, lengths = Windows(3, 2)(FRAMES)
    assert lengths is None
    # frames (1 2) (3 4) (5 6) ...: a window holds the first features of its frames, then the second ones
    assert windows[0].tolist() == [[1, 3, 5, 2, 4, 6], [5, 7, 9, 6, 8, 10], [9, 11, 13, 10, 12, 14]]


def test_a_row_ends_with_a_window_filled_up() -> None:
    windows, lengths = Windows(3, 2)(FRAMES.expand(5, 7, 2), torch.tensor([7, 4, 3, 1, 0]))
    assert lengths is not None
    assert lengths.tolist() == [3, 2, 1, 1, 0]
    assert windows[1].tolist() == [[1, 3, 5, 2, 4, 6], [5, 7, 0, 6, 8, 0], [0] * 6]
    assert windows[3, 0].tolist() == [1, 0, 0, 2, 0, 0]


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 2), (5, 5), (2, 3), (11, 4)])
def test_lengths_are_counted_as_rows_alone(size: int, stride: int) -> None:
    lengths = torch.arange(1, 8)
    _, counted = Windows(size, stride)(FRAMES.expand(7, 7, 2), lengths)
    assert counted is not None
    assert counted.tolist() == [num_windows(length, size, stride) for length in range(1, 8)]
    assert counted.tolist() == [Windows(size, stride)(FRAMES[:, :length])[0].size(1) for length in range(1, 8)]


def test_convolutions_keep_frames_in_place_and_see_no_padding() -> None:
    torch.manual_seed(0)
    front = Convolutions(2, 5, layers=2, kernel=3).double()
    rows, lengths = FRAMES.repeat(2, 1, 1), torch.tensor([7, 4])
    out, same = front(rows, lengths)
    assert out.shape == (2, 7, 5)
    assert same is lengths
    alone, _ = front(rows[1:, :4])
    torch.testing.assert_close(out[1, :4], alone[0], atol=1e-12, rtol=0)
    moved = rows.clone()
    moved[0, 6] += 1  # two layers of three frames reach two frames far
    changed = (front(moved)[0] - front(rows)[0])[0].abs().sum(dim=1) > 0
    assert changed.tolist() == [False] * 4 + [True] * 3


def test_refused() -> None:
    with pytest.raises(ShapeError, match="`kernel` must be odd"):
        Convolutions(2, 5, layers=1, kernel=4)
    with pytest.raises(ShapeError, match="at least 1, but have 3 and 0"):
        Windows(3, 0)
