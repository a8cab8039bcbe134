"""Alignments, heads and rollout on maps small enough to work out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.inspection import (
    HeadChoice,
    HeadSummary,
    align_words,
    aligning_layer,
    alignment_error_rate,
    attention_rollout,
    flatness,
    from_pharaoh,
    rank_heads,
    summarise_heads,
    to_pharaoh,
    word_spans,
    word_weights,
)

SOURCE = word_spans([b" a", b" do", b"g", b""])
TARGET = word_spans([b" ein", b" Hu", b"nd", b""])
WEIGHTS = torch.tensor(
    [
        [0.7, 0.1, 0.1, 0.1],
        [0.4, 0.3, 0.3, 0.0],
        [0.2, 0.3, 0.4, 0.1],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def test_spaces_part_words_wherever_they_stand_in_a_token() -> None:
    assert word_spans([b" a", b"b", b"", b" ", b" ", b"c", b" d e"]) == [[0, 1], [5], [6], [6]]
    assert word_spans([b"a", b"b ", b"c", b"\xc3", b"\xa9"]) == [[0, 1], [2, 3, 4]]
    assert word_spans([]) == word_spans([b" ", b""]) == []


def test_source_pieces_are_summed_and_target_pieces_averaged() -> None:
    # "Hund": (0.4 + 0.2) / 2 on "a", (0.3 + 0.3 + 0.3 + 0.4) / 2 on "dog"
    expected = torch.tensor([[0.7, 0.2], [0.3, 0.65]])
    torch.testing.assert_close(word_weights(WEIGHTS, SOURCE, TARGET), expected)


def test_each_target_word_is_linked_to_the_word_it_looks_at_most() -> None:
    assert to_pharaoh(align_words(WEIGHTS, SOURCE, TARGET)) == "0-0 1-1"
    assert to_pharaoh(align_words(WEIGHTS, SOURCE, TARGET, threshold=0.3)) == "0-0 0-1 1-1"
    assert align_words(WEIGHTS, SOURCE, TARGET, threshold=0.9) == []
    assert align_words(torch.ones(1, 1), [], []) == align_words(torch.ones(1, 1), [[0]], []) == []
    assert align_words(torch.ones(1, 1), [], [[0]]) == []
    with pytest.raises(ShapeError, match=r"the source words reach to piece 3, but `weights` is \[4, 2\]"):
        align_words(WEIGHTS[:, :2], SOURCE, TARGET)


def test_pharaoh_lines_go_both_ways() -> None:
    assert from_pharaoh(" 0-0 12-3\n") == [(0, 0), (12, 3)]
    assert to_pharaoh([(12, 3), (0, 0)]) == "0-0 12-3"
    assert from_pharaoh("") == []
    with pytest.raises(InputError, match="must be like '0-0 1-2'"):
        from_pharaoh("0-0 1:2")


def test_alignment_error_rate_worked_by_hand() -> None:
    found, sure, possible = [{(0, 0), (1, 1), (2, 1)}], [{(0, 0), (1, 2)}], [{(1, 1)}]
    # A∩S = {0-0}, A∩P = {0-0, 1-1}; |A| = 3, |S| = 2
    assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - 3 / 5)
    assert alignment_error_rate(found, sure) == pytest.approx(1 - 2 / 5)
    assert alignment_error_rate(sure, sure) == 0.0
    assert alignment_error_rate([[]], [[]]) == 0.0


def test_the_head_that_people_agree_with_is_found() -> None:
    maps = torch.full((2, 3, 4, 4), 0.25)
    maps[:, :, :, 0] += 0.1
    maps[1, 2] = WEIGHTS
    ranking = rank_heads([maps], [SOURCE], [TARGET], [[(0, 0), (1, 1)]])
    # the mean of a layer competes with its heads: here the other two say nothing; ties keep the order of the model
    assert ranking[:2] == [HeadChoice(1, None, 0.0), HeadChoice(1, 2, 0.0)]
    assert [(choice.layer, choice.head) for choice in ranking[2:]] == [
        (0, None), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1),
    ]  # fmt: skip
    with pytest.raises(InputError, match="at least one sentence"):
        rank_heads([], [], [], [])


def test_how_flat_a_look_is() -> None:
    assert flatness(torch.full((3, 5), 0.2)) == pytest.approx(1.0)
    assert flatness(torch.eye(3)) == 0.0
    # the first row sees nothing and is left out; the second is uniform over 2 of 4: half of the bits
    assert flatness(torch.tensor([[0.0, 0, 0, 0], [0.5, 0.5, 0, 0]])) == pytest.approx(0.5)
    assert flatness(torch.ones(3, 1)) == flatness(torch.zeros(2, 3)) == 0.0


def test_the_layer_that_aligns_is_the_last_but_one_or_the_only_one() -> None:
    assert [aligning_layer(count) for count in (1, 2, 3, 6)] == [0, 0, 1, 4]


def test_heads_are_summarised_and_blind_queries_left_out() -> None:
    uniform = torch.full((4, 4), 0.25)
    shifted = torch.zeros(4, 4)
    shifted[1, 0] = shifted[2, 1] = shifted[3, 2] = 1.0  # the first query sees nothing
    [spread, previous] = summarise_heads(torch.stack([uniform, shifted])[None])
    # mean of |i − j| over a 4 × 4 square is 20 / 16
    assert spread == HeadSummary(0, 0, entropy=2.0, distance=1.25, peak=0.25)
    assert previous == HeadSummary(0, 1, entropy=0.0, distance=1.0, peak=1.0)


def test_rollout_multiplies_layers_mixed_with_the_residual() -> None:
    first, second = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    maps = torch.stack([first, second])[:, None]
    # layer 1: [[1, 0], [½, ½]]; layer 2: [[½, ½], [0, 1]] times that
    expected = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    torch.testing.assert_close(attention_rollout(maps), expected)
    torch.testing.assert_close(attention_rollout(maps, residual=1.0), torch.eye(2))
    random = torch.rand(5, 3, 7, 7).softmax(-1)
    torch.testing.assert_close(attention_rollout(random).sum(-1), torch.ones(7))
    with pytest.raises(InputError, match="between 0 and 1, but is 2"):
        attention_rollout(maps, residual=2.0)


def test_entropy_is_in_bits() -> None:
    weights = torch.tensor([[[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]]])
    assert summarise_heads(weights)[0].entropy == pytest.approx((1.0 + 1.5) / 2)
    assert math.isclose(summarise_heads(weights)[0].peak, 0.5)
