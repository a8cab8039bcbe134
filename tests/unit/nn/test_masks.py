"""Masks: who may attend to whom, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.nn import EVERYTHING, Visibility, causal_mask, check_mask, combine, lengths_from_ids, padding_mask

CPU = torch.device("cpu")


def rows(mask: Tensor | None) -> list[str]:
    """Return the last two axes of a mask with one head and one row of the batch, as text."""
    assert mask is not None
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.reshape(mask.shape[-2:]).tolist()]


class TestPaddingMask:
    def test_true_where_a_key_is_real(self) -> None:
        mask = padding_mask(torch.tensor([2, 0, 3]), 3)
        assert mask.dtype == torch.bool
        assert mask.shape == (3, 1, 1, 3)
        assert mask[:, 0, 0].tolist() == [[True, True, False], [False, False, False], [True, True, True]]


class TestCausalMask:
    def test_lower_triangle_when_square(self) -> None:
        assert rows(causal_mask(3, 3)) == ["x..", "xx.", "xxx"]

    def test_last_query_stands_at_the_last_key(self) -> None:
        assert rows(causal_mask(2, 5)) == ["xxxx.", "xxxxx"]

    def test_queries_before_the_first_key_see_nothing(self) -> None:
        assert rows(causal_mask(3, 2)) == ["..", "x.", "xx"]

    def test_one_offset_for_all_rows(self) -> None:
        assert rows(causal_mask(2, 5, offset=1)) == ["xx...", "xxx.."]

    def test_one_offset_per_row(self) -> None:
        mask = causal_mask(2, 5, offset=torch.tensor([0, 2]))
        assert mask.shape == (2, 1, 2, 5)
        assert rows(mask[0]) == ["x....", "xx..."]
        assert rows(mask[1]) == ["xxx..", "xxxx."]

    @pytest.mark.parametrize(("num_queries", "num_keys", "offset"), [(1, 1, 0), (2, 7, 3), (5, 5, 0), (3, 11, 8)])
    def test_an_offset_per_row_is_the_offset_of_that_row(self, num_queries: int, num_keys: int, offset: int) -> None:
        by_row = causal_mask(num_queries, num_keys, offset=torch.tensor([offset, 0]))
        assert torch.equal(by_row[0, 0], causal_mask(num_queries, num_keys, offset=offset))


class TestLengthsFromIds:
    def test_counts_real_tokens(self) -> None:
        ids = torch.tensor([[7, 9, 0], [5, 0, 0], [0, 0, 0], [1, 2, 3]])
        assert lengths_from_ids(ids).tolist() == [2, 1, 0, 3]

    @pytest.mark.parametrize("row", [[0, 7, 9], [7, 0, 9], [0, 0, 7]])
    def test_padding_before_a_token_is_refused_in_words(self, row: list[int]) -> None:
        with pytest.raises(ShapeError, match=r"source must be padded on the right, but row 1 has padding \(id 0\)"):
            lengths_from_ids(torch.tensor([[7, 9, 0], row]), what="source")

    def test_the_refusal_is_a_value_error_of_ours(self) -> None:
        with pytest.raises(InputError, match="move the padding to the end") as refusal:
            lengths_from_ids(torch.tensor([[0, 5]]))
        assert isinstance(refusal.value, ValueError)


class TestCheckMask:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((3, 5), (1, 1, 3, 5)),
            ((2, 3, 5), (2, 1, 3, 5)),
            ((2, 1, 1, 5), (2, 1, 1, 5)),
            ((2, 7, 3, 5), (2, 7, 3, 5)),
        ],
    )
    def test_two_three_and_four_axes(self, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
        mask = torch.rand(shape) < 0.5
        checked = check_mask(mask)
        assert checked.shape == expected
        assert torch.equal(checked.reshape(shape), mask)

    @pytest.mark.parametrize("shape", [(5,), (), (1, 1, 1, 3, 5)])
    def test_other_axes_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ShapeError, match=r"`mask` must be \[Lq, Lk\].*but has shape.*padding_mask"):
            check_mask(torch.ones(shape, dtype=torch.bool))

    @pytest.mark.parametrize(
        "mask",
        [
            torch.ones(3, 5),
            torch.zeros(3, 5).masked_fill(torch.ones(3, 5).bool().tril(), -torch.inf),
            torch.ones(3, 5, dtype=torch.int64),
            torch.ones(3, 5, dtype=torch.uint8),
        ],
        ids=["0/1 float", "0/-inf float", "int64", "uint8"],
    )
    def test_anything_but_booleans_is_refused_with_what_to_pass(self, mask: Tensor) -> None:
        with pytest.raises(ShapeError, match=r"`target_mask` must be boolean.*`target_mask != 0`.*`target_mask == 0`"):
            check_mask(mask, name="target_mask")


class TestCombine:
    def test_nothing_means_everything(self) -> None:
        assert combine() is None
        assert combine(None, None) is None

    def test_one_mask_is_that_mask(self) -> None:
        assert rows(combine(None, causal_mask(2, 3))) == ["xx.", "xxx"]

    def test_allowed_is_what_all_allow(self) -> None:
        padding = padding_mask(torch.tensor([2]), 3)
        assert rows(combine(padding, causal_mask(3, 3))) == ["x..", "xx.", "xx."]

    def test_axes_broadcast(self) -> None:
        combined = combine(padding_mask(torch.tensor([2, 3]), 3), causal_mask(3, 3), torch.ones(2, 5, 3, 3).bool())
        assert combined is not None
        assert combined.shape == (2, 5, 3, 3)


class TestVisibility:
    def test_everything_needs_no_mask(self) -> None:
        assert EVERYTHING.resolve(3, 5, CPU) == (None, False)

    def test_a_lone_square_triangle_is_left_to_the_kernel(self) -> None:
        for visible in (Visibility(causal=True), Visibility(causal=True, offset=0)):
            assert visible.resolve(3, 3, CPU) == (None, True)

    @pytest.mark.parametrize("offset", [None, 4])
    def test_one_new_token_beside_a_cache_needs_no_mask(self, offset: int | None) -> None:
        assert Visibility(causal=True, offset=offset).resolve(1, 5, CPU) == (None, False)

    @pytest.mark.parametrize("offset", [None, 3])
    def test_several_new_tokens_beside_a_cache(self, offset: int | None) -> None:
        mask, causal = Visibility(causal=True, offset=offset).resolve(2, 5, CPU)
        assert not causal
        assert rows(mask) == ["xxxx.", "xxxxx"]

    def test_a_square_with_an_offset_is_not_the_plain_triangle(self) -> None:
        mask, causal = Visibility(causal=True, offset=1).resolve(3, 3, CPU)
        assert not causal
        assert rows(mask) == ["xx.", "xxx", "xxx"]

    def test_padding_alone(self) -> None:
        mask, causal = Visibility(torch.tensor([2, 3])).resolve(5, 3, CPU)
        assert not causal
        assert torch.equal(mask, padding_mask(torch.tensor([2, 3]), 3))

    def test_padding_with_causality_becomes_one_mask(self) -> None:
        mask, causal = Visibility(torch.tensor([2]), causal=True).resolve(3, 3, CPU)
        assert not causal
        assert rows(mask) == ["x..", "xx.", "xx."]

    def test_padding_stays_where_the_triangle_is_dropped(self) -> None:
        mask, causal = Visibility(torch.tensor([2]), causal=True).resolve(1, 3, CPU)
        assert not causal
        assert rows(mask) == ["xx."]

    def test_a_further_mask_comes_on_top(self) -> None:
        allowed = torch.tensor([[True, True, True], [False, True, True], [True, False, True]])
        mask, _ = Visibility(torch.tensor([2]), causal=True, allowed=allowed).resolve(3, 3, CPU)
        assert rows(mask) == ["x..", ".x.", "x.."]

    @pytest.mark.usefixtures("unchecked")
    def test_a_further_mask_is_checked(self) -> None:
        with pytest.raises(ShapeError, match="must be boolean"):
            Visibility(allowed=torch.ones(3, 3)).resolve(3, 3, CPU)

    @pytest.mark.parametrize(("num_queries", "num_keys"), [(3, 3), (1, 5), (2, 5)])
    def test_an_offset_per_row(self, num_queries: int, num_keys: int) -> None:
        # all rows at their start, or where one token is left to read, are the cases that ints treat apart
        for offset in (torch.zeros(2, dtype=torch.long), torch.tensor([0, num_keys - num_queries])):
            mask, causal = Visibility(causal=True, offset=offset).resolve(num_queries, num_keys, CPU)
            assert not causal
            assert torch.equal(mask, causal_mask(num_queries, num_keys, offset=offset))

    def test_masks_follow_the_device_of_the_scores(self) -> None:
        visible = Visibility(torch.tensor([2]), causal=True, allowed=torch.ones(3, 3).bool())
        mask, _ = visible.resolve(3, 3, torch.device("meta"))
        assert mask is not None
        assert mask.device.type == "meta"
