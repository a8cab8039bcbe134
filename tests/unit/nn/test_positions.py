"""Positions: by the formula, at every offset, in every precision, and never in the saved weights.

Axes: B batch, H heads, L tokens, T queries, S keys, D = d_model, K width of a head.
"""

from __future__ import annotations

import io
import math

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from regard.errors import ShapeError
from regard.nn import Learned, Positions, RelativeBias, Rotary, Sinusoidal, sinusoidal_table

WIDTHS = [1, 2, 3, 4, 5, 7, 127]

EMBEDDED = [Sinusoidal(5, 23), Sinusoidal(5, 23, layout="half"), Learned(5, 23)]
ROTARY = [Rotary(6, 23), Rotary(6, 23, layout="half"), Rotary(6, 23, base=17.0)]


def by_formula(max_len: int, d_model: int) -> Tensor:
    """Return the table number by number, as the paper writes it."""
    return torch.tensor(
        [
            [(math.sin, math.cos)[d % 2](place / 10_000 ** (2 * (d // 2) / d_model)) for d in range(d_model)]
            for place in range(max_len)
        ],
        dtype=torch.float64,
    )


class TestPositions:
    def test_three_hooks_that_do_nothing(self) -> None:
        x_BLD, x_BHLK = torch.randn(2, 5, 7), torch.randn(2, 3, 5, 7)
        assert Positions().embed(x_BLD, 3) is x_BLD
        assert Positions().rotate(x_BHLK, 3) is x_BHLK
        assert Positions().bias(5, 7, 3) is None

    @pytest.mark.parametrize("positions", [*EMBEDDED, *ROTARY, RelativeBias(3)])
    def test_each_kind_uses_one_hook_only(self, positions: Positions) -> None:
        x_BLD, x_BHLK = torch.randn(2, 11, 5), torch.randn(2, 3, 11, 6)
        used = (
            not torch.equal(positions.embed(x_BLD), x_BLD),
            not torch.equal(positions.rotate(x_BHLK), x_BHLK),
            positions.bias(11, 11) is not None,
        )
        assert sum(used) == 1

    @pytest.mark.parametrize("positions", [*EMBEDDED, *ROTARY, RelativeBias(3)])
    def test_no_table_is_saved(self, positions: Positions) -> None:
        assert set(positions.state_dict()) <= {"weight"}
        assert len(save(positions.state_dict())) < 8000


class TestSinusoidal:
    @pytest.mark.parametrize("d_model", WIDTHS)
    def test_the_table_is_the_formula_at_any_width(self, d_model: int) -> None:
        table = sinusoidal_table(31, d_model)
        assert table.shape == (31, d_model)
        assert table.dtype == torch.float32
        # one rounding to float32 of numbers up to 1
        torch.testing.assert_close(table.double(), by_formula(31, d_model), atol=6e-8, rtol=0)

    @pytest.mark.parametrize("d_model", WIDTHS)
    def test_half_layout_has_all_sines_first(self, d_model: int) -> None:
        table = sinusoidal_table(31, d_model)
        expected = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        assert torch.equal(sinusoidal_table(31, d_model, "half"), expected)

    @pytest.mark.parametrize("d_model", WIDTHS)
    def test_is_added(self, d_model: int) -> None:
        x = torch.randn(2, 11, d_model)
        assert torch.equal(Sinusoidal(d_model, 31).embed(x), x + sinusoidal_table(31, d_model)[:11])

    def test_another_width_is_refused_in_words(self) -> None:
        with pytest.raises(ShapeError, match="positions are 5 wide, but the embeddings are 7"):
            Sinusoidal(5, 11).embed(torch.zeros(2, 3, 7))
        with pytest.raises(ShapeError, match="positions are 5 wide, but the embeddings are 7"):
            Learned(5, 11).embed(torch.zeros(2, 3, 7))

    def test_nothing_to_train(self) -> None:
        assert list(Sinusoidal(5, 11).parameters()) == []


class TestPrecision:
    # Half a unit in the last place of numbers between 1/2 and 1: 2^-9, 2^-12, 2^-25; in float64 that of the angle.
    ROUNDING = (
        (torch.bfloat16, 0.002),
        (torch.float16, 0.00025),
        (torch.float32, 3e-8),
        (torch.float64, 5e-13),
    )

    def test_tables_that_nothing_changed_are_not_made_again(self) -> None:
        sinusoidal, rotary = Sinusoidal(6, 11), Rotary(6, 11)
        before = sinusoidal.table, rotary.cos, rotary.sin
        sinusoidal, rotary = sinusoidal.to("cpu").float(), rotary.to("cpu").float()
        assert all(a is b for a, b in zip(before, (sinusoidal.table, rotary.cos, rotary.sin), strict=True))
        empty = Sinusoidal(6, 11).to_empty(device="cpu")  # which gives memory with anything in it
        assert torch.equal(empty.table, sinusoidal.table)

    @pytest.mark.parametrize(("dtype", "largest"), ROUNDING)
    @pytest.mark.parametrize("detour", [None, torch.bfloat16, torch.float16])
    def test_tables_are_rounded_once(self, dtype: torch.dtype, largest: float, detour: torch.dtype | None) -> None:
        exact, places = by_formula(2048, 6), torch.arange(2048.0, dtype=torch.float64)[:, None]
        sinusoidal, rotary = Sinusoidal(6, 2048), Rotary(6, 2048)
        if detour is not None:
            sinusoidal, rotary = sinusoidal.to(detour), rotary.to(detour)
        sinusoidal, rotary = sinusoidal.to(dtype), rotary.to(dtype)
        assert sinusoidal.table.dtype == rotary.cos.dtype == dtype
        assert (sinusoidal.table.double() - exact).abs().max() <= largest
        angles = places * 10_000.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
        assert (rotary.cos.double() - angles.cos()).abs().max() <= largest
        assert (rotary.sin.double() - angles.sin()).abs().max() <= largest

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_the_input_keeps_its_dtype_whatever_the_table(self, dtype: torch.dtype) -> None:
        assert Sinusoidal(5).embed(torch.zeros(2, 3, 5, dtype=dtype)).dtype == dtype
        assert Rotary(6).rotate(torch.ones(2, 3, 5, 6, dtype=dtype)).dtype == dtype


class TestOffset:
    @pytest.mark.parametrize("positions", EMBEDDED)
    @pytest.mark.parametrize("offset", [0, 1, 7, 18])
    def test_embed_continues_where_it_ended(self, positions: Positions, offset: int) -> None:
        x = torch.randn(2, 23, 5)
        whole = positions.embed(x)[:, offset : offset + 5]
        assert torch.equal(positions.embed(x[:, offset : offset + 5], offset), whole)

    @pytest.mark.parametrize("positions", ROTARY)
    @pytest.mark.parametrize("offset", [0, 1, 7, 18])
    def test_rotate_continues_where_it_ended(self, positions: Positions, offset: int) -> None:
        x = torch.randn(2, 3, 23, 6)
        whole = positions.rotate(x)[:, :, offset : offset + 5]
        assert torch.equal(positions.rotate(x[:, :, offset : offset + 5], offset), whole)

    @pytest.mark.parametrize("bidirectional", [True, False])
    @pytest.mark.parametrize("offset", [0, 1, 7, 18])
    def test_bias_continues_where_it_ended(self, bidirectional: bool, offset: int) -> None:
        positions = RelativeBias(3, bidirectional=bidirectional)
        whole = positions.bias(23, 23)[:, :, offset : offset + 5]
        assert torch.equal(positions.bias(5, 23, offset), whole)

    def test_one_offset_per_row(self) -> None:
        offset = torch.tensor([0, 11, 3])
        x_BLD, x_BHLK, bias = torch.randn(3, 5, 5), torch.randn(3, 2, 5, 6), RelativeBias(2)
        biases = bias.bias(5, 17, offset)
        assert biases.shape == (3, 2, 5, 17)
        for row, start in enumerate(offset.tolist()):
            for embedded in EMBEDDED:
                assert torch.equal(embedded.embed(x_BLD, offset)[row], embedded.embed(x_BLD, start)[row])
            for rotary in ROTARY:
                assert torch.equal(rotary.rotate(x_BHLK, offset)[row], rotary.rotate(x_BHLK, start)[row])
            assert torch.equal(biases[row], bias.bias(5, 17, start)[0])

    @pytest.mark.parametrize("offset", [19, torch.tensor([0, 19])])
    def test_past_the_last_place_is_refused_in_words(self, offset: int | Tensor) -> None:
        words = r"a sequence of 24 tokens does not fit {} positions with max_len = 23; shorten the input or build"
        x_BLD, x_BHLK = torch.zeros(2, 5, 5), torch.zeros(2, 2, 5, 6)
        with pytest.raises(ShapeError, match=words.format("sinusoidal")):
            Sinusoidal(5, 23).embed(x_BLD, offset)
        with pytest.raises(ShapeError, match=words.format("learned")):
            Learned(5, 23).embed(x_BLD, offset)
        with pytest.raises(ShapeError, match=words.format("rotary")):
            Rotary(6, 23).rotate(x_BHLK, offset)

    @pytest.mark.parametrize("offset", [18, torch.tensor([0, 18])])
    def test_the_last_place_fits(self, offset: int | Tensor) -> None:
        for positions in EMBEDDED:
            positions.embed(torch.zeros(2, 5, 5), offset)
        for positions in ROTARY:
            positions.rotate(torch.zeros(2, 2, 5, 6), offset)

    def test_relative_bias_has_no_last_place(self) -> None:
        assert RelativeBias(3).bias(2, 5000, 4998).shape == (1, 3, 2, 5000)


class TestLearned:
    def test_adds_its_rows(self) -> None:
        positions, x = Learned(5, 23), torch.randn(2, 7, 5)
        assert torch.equal(positions.embed(x), x + positions.weight[:7])

    def test_only_places_that_were_used_get_gradient(self) -> None:
        positions = Learned(5, 11)
        positions.embed(torch.zeros(2, 3, 5), 4).sum().backward()
        assert positions.weight.grad is not None
        assert positions.weight.grad[:, 0].tolist() == [0, 0, 0, 0, 2, 2, 2, 0, 0, 0, 0]

    def test_is_saved(self) -> None:
        buffer = io.BytesIO(save(Learned(5, 23).state_dict()))
        assert len(buffer.getvalue()) > 5 * 23 * 4


class TestRotary:
    def test_place_one_turns_by_one_radian(self) -> None:
        out = Rotary(2).rotate(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
        torch.testing.assert_close(out, torch.tensor([[[[1.0, 0.0], [math.cos(1), math.sin(1)]]]]))

    def test_pairs_turn_at_their_own_rates(self) -> None:
        # K = 4: rates 1 and 10000^(-1/2) = 1/100
        out = Rotary(4).rotate(torch.tensor([1.0, 0.0, 1.0, 0.0]).expand(1, 1, 2, 4))
        expected = torch.tensor([math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)])
        torch.testing.assert_close(out[0, 0, 1], expected)

    def test_layouts_differ_by_an_order_of_features(self) -> None:
        x = torch.randn(2, 3, 11, 6)
        order = torch.tensor([0, 2, 4, 1, 3, 5])
        half, interleaved = Rotary(6, layout="half"), Rotary(6)
        torch.testing.assert_close(half.rotate(x[..., order]), interleaved.rotate(x)[..., order], atol=0, rtol=0)

    @pytest.mark.parametrize("positions", ROTARY)
    def test_a_score_depends_on_the_distance_alone(self, positions: Positions) -> None:
        q, k = torch.randn(2, 3, 1, 6), torch.randn(2, 3, 1, 6)
        at = [(positions.rotate(q, i) * positions.rotate(k, j)).sum(-1) for i, j in [(3, 1), (2, 0), (22, 20)]]
        # cosines of places up to 22 rounded to float32, times scores of about ten
        torch.testing.assert_close(at[0], at[1], atol=1e-5, rtol=0)
        torch.testing.assert_close(at[0], at[2], atol=1e-5, rtol=0)
        other = (positions.rotate(q, 3) * positions.rotate(k, 2)).sum(-1)
        assert not torch.allclose(at[0], other, atol=1e-3)

    @pytest.mark.parametrize("positions", ROTARY)
    def test_lengths_stay(self, positions: Positions) -> None:
        x = torch.randn(2, 3, 23, 6)
        torch.testing.assert_close(positions.rotate(x).norm(dim=-1), x.norm(dim=-1))

    @pytest.mark.parametrize("head_width", [1, 3, 7])
    def test_an_odd_width_is_refused_in_words(self, head_width: int) -> None:
        with pytest.raises(ShapeError, match=f"d_model / num_heads must be even, but is {head_width}"):
            Rotary(head_width)


class TestRelativeBias:
    # Worked by hand: with 32 buckets and 128 as the largest distance, 16 buckets per direction of which 8 hold one
    # distance each; then 8 + floor(8 ln(d / 8) / ln 16).
    BIDIRECTIONAL = ((0, 0), (1, 1), (7, 7), (8, 8), (11, 8), (12, 9), (16, 10), (23, 11), (32, 12), (46, 13), (64, 14))
    BIDIRECTIONAL += ((90, 14), (91, 15), (127, 15), (128, 15), (5000, 15))
    # One direction: 16 of one distance each; then 16 + floor(16 ln(d / 16) / ln 8).
    ONE_DIRECTION = ((0, 0), (1, 1), (15, 15), (16, 16), (19, 17), (20, 17), (32, 21), (64, 26), (112, 30), (113, 31))
    ONE_DIRECTION += ((128, 31), (5000, 31))

    @staticmethod
    def buckets(positions: RelativeBias, place: int) -> Tensor:
        """Return the bucket of each of 5001 keys from a query at ``place``."""
        with torch.no_grad():
            positions.weight[:] = torch.arange(32.0)[:, None]
        bias = positions.bias(1, 5001, place)
        assert bias is not None
        return bias[0, 0, 0]

    @pytest.mark.parametrize(("distance", "bucket"), BIDIRECTIONAL)
    def test_both_directions(self, distance: int, bucket: int) -> None:
        positions = RelativeBias(1)
        assert self.buckets(positions, distance)[0] == bucket  # a key before the query
        if distance:
            assert self.buckets(positions, 0)[distance] == 16 + bucket  # a key after it

    @pytest.mark.parametrize(("distance", "bucket"), ONE_DIRECTION)
    def test_one_direction(self, distance: int, bucket: int) -> None:
        positions = RelativeBias(1, bidirectional=False)
        assert self.buckets(positions, distance)[0] == bucket
        assert self.buckets(positions, 0)[distance] == 0  # keys after the query share the bucket of distance 0

    def test_one_number_per_head(self) -> None:
        positions = RelativeBias(3, num_buckets=4, max_distance=5)
        bias = positions.bias(2, 2)
        assert bias.shape == (1, 3, 2, 2)
        # two buckets per direction: distance 0, and 1 or more; keys after the query from bucket 2 on
        assert torch.equal(bias[0, :, 0, 0], positions.weight[0])
        assert torch.equal(bias[0, :, 1, 0], positions.weight[1])
        assert torch.equal(bias[0, :, 0, 1], positions.weight[3])

    @pytest.mark.parametrize(("num_buckets", "max_distance"), [(2, 128), (3, 128), (32, 8), (32, 0)])
    def test_buckets_without_room_are_refused_in_words(self, num_buckets: int, max_distance: int) -> None:
        with pytest.raises(ShapeError, match=f"{num_buckets} buckets.*{max_distance}"):
            RelativeBias(3, num_buckets=num_buckets, max_distance=max_distance)
