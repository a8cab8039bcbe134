"""Attention: by hand, by the plain formula, by the fused kernels, and by torch's own; they agree.

Axes: B batch, H heads, T queries, S keys, K width of a head, D = H K.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.nn import (
    KeyValueCache,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    Visibility,
    attend,
    attend_plain,
    causal_mask,
    padding_mask,
)
from regard.nn.attention import SHORT

B, H, T, K = 2, 3, 5, 7
D = H * K
KEYS = (11, SHORT + 5)
"""Numbers of keys on both sides of the border between two plain products and the fused kernel."""

# A few roundings of numbers near one, and in half precision of sums that torch keeps in float32.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}


def qkv(num_keys: int, *, num_queries: int = T, dtype: torch.dtype = torch.float32, grad: bool = False) -> list[Tensor]:
    generator = torch.Generator().manual_seed(num_keys)
    return [
        torch.randn(B, H, length, K, dtype=torch.float64, generator=generator).to(dtype).requires_grad_(grad)
        for length in (num_queries, num_keys, num_keys)
    ]


def masks(num_keys: int) -> dict[str, Tensor | None]:
    generator = torch.Generator().manual_seed(num_keys)
    per_head = torch.rand(B, H, T, num_keys, generator=generator) < 0.5
    per_head[..., 0] = True
    return {
        "none": None,
        "padding": padding_mask(torch.tensor([num_keys, 2]), num_keys),
        "triangle": causal_mask(T, num_keys)[None, None],
        "per head": per_head,
        "empty row": per_head & (torch.arange(T) != 3)[:, None],
    }


class TestAttendPlain:
    def test_weights_one_and_three_quarters(self) -> None:
        # scaled scores 0 and ln 3 -> exponentials 1 and 3 -> weights 1/4 and 3/4 of values 2 and 6
        q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [math.log(3)]]]])
        out, weights = attend_plain(q, k, torch.tensor([[[[2.0], [6.0]]]]))
        torch.testing.assert_close(weights, torch.tensor([[[[0.25, 0.75]]]]))
        torch.testing.assert_close(out, torch.tensor([[[[5.0]]]]))

    def test_scores_are_divided_by_the_root_of_the_head_width(self) -> None:
        # 4 equal features: q·k = 4 ln 3, by √4 -> 2 ln 3 -> odds of 9 to 1
        q = torch.full((1, 1, 1, 4), math.log(3))
        k = torch.stack([torch.zeros(4), torch.ones(4)])[None, None]
        _, weights = attend_plain(q, k, k)
        torch.testing.assert_close(weights, torch.tensor([[[[0.1, 0.9]]]]))

    def test_another_scale(self) -> None:
        q = torch.full((1, 1, 1, 4), math.log(3))
        k = torch.stack([torch.zeros(4), torch.ones(4)])[None, None]
        _, weights = attend_plain(q, k, k, scale=0.25)  # 4 ln 3 / 4 -> 3 to 1
        torch.testing.assert_close(weights, torch.tensor([[[[0.25, 0.75]]]]))

    def test_bias_is_added_after_scaling(self) -> None:
        q, k = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 2, 4)
        _, weights = attend_plain(q, k, k, bias=torch.tensor([[[[0.0, math.log(3)]]]]))
        torch.testing.assert_close(weights, torch.tensor([[[[0.25, 0.75]]]]))

    def test_masked_keys_weigh_exactly_nothing(self) -> None:
        scores = torch.tensor([[2.0, 1.0, 0.0], [3.0, 2.0, 1.0]])
        mask = torch.tensor([[[[True, False, True], [False, False, False]]]])
        _, weights = attend_plain(scores[None, None], torch.eye(3)[None, None], torch.eye(3)[None, None], mask, scale=1)
        # e^2 : e^0 = 0.8808 : 0.1192; the second row may look at nothing
        torch.testing.assert_close(
            weights[0, 0], torch.tensor([[0.8808, 0.0, 0.1192], [0.0, 0.0, 0.0]]), atol=5e-5, rtol=0
        )
        assert weights[0, 0, 0, 1] == 0

    def test_rows_sum_to_one(self) -> None:
        _, weights = attend_plain(*qkv(11), masks(11)["per head"])
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T))

    def test_dropout_scales_up_what_it_leaves(self) -> None:
        torch.manual_seed(3)
        v = torch.ones(1, 1, 10_007, 1)
        _, weights = attend_plain(torch.zeros(1, 1, 1, 1), v, v, dropout=0.25)
        kept = weights[weights > 0] * 10_007
        torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.75))
        assert abs(kept.numel() / 10_007 - 0.75) < 0.02  # 4.6 standard deviations of a share of 10,007


class TestAttend:
    @pytest.mark.parametrize("num_keys", KEYS)
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("name", masks(11))
    @pytest.mark.parametrize("dtype", TOLERANCE)
    def test_fused_is_plain(self, num_keys: int, bias: bool, name: str, dtype: torch.dtype) -> None:
        q, k, v = qkv(num_keys, dtype=dtype)
        mask = masks(num_keys)[name]
        added = torch.randn(1, H, T, num_keys, generator=torch.Generator().manual_seed(1)) if bias else None
        exact, _ = attend_plain(
            q.double(), k.double(), v.double(), mask, bias=None if added is None else added.double()
        )
        out = attend(q, k, v, mask, bias=added)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), exact, atol=TOLERANCE[dtype], rtol=0)

    @pytest.mark.parametrize("num_keys", KEYS)
    @pytest.mark.parametrize("name", ["none", "padding", "triangle", "per head"])
    def test_is_torch_attention_where_no_row_is_empty(self, num_keys: int, name: str) -> None:
        q, k, v = qkv(num_keys)
        mask = masks(num_keys)[name]
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        torch.testing.assert_close(attend(q, k, v, mask), expected, atol=TOLERANCE[torch.float32], rtol=0)

    @pytest.mark.parametrize("num_keys", KEYS)
    @pytest.mark.parametrize("num_queries", [1, T, 11, SHORT + 5])
    @pytest.mark.parametrize("name", ["alone", "masked", "biased"])
    def test_causal_is_the_causal_mask(self, num_keys: int, num_queries: int, name: str) -> None:
        q, k, v = qkv(num_keys, num_queries=num_queries)
        triangle = causal_mask(num_queries, num_keys)
        mask = padding_mask(torch.tensor([num_keys, 2]), num_keys) if name == "masked" else None
        bias = torch.randn(1, H, num_queries, num_keys) if name == "biased" else None
        expected, _ = attend_plain(q, k, v, triangle[None, None] if mask is None else triangle & mask, bias=bias)
        out = attend(q, k, v, mask, bias=bias, causal=True)
        torch.testing.assert_close(out, expected, atol=TOLERANCE[torch.float32], rtol=0)

    @pytest.mark.parametrize("num_keys", KEYS)
    @pytest.mark.parametrize("name", ["none", "padding"])
    def test_another_scale(self, num_keys: int, name: str) -> None:
        (q, k, v), mask = qkv(num_keys), masks(num_keys)[name]
        expected, _ = attend_plain(q, k, v, mask, scale=1.0)
        torch.testing.assert_close(attend(q, k, v, mask, scale=1.0), expected, atol=TOLERANCE[torch.float32], rtol=0)
        assert not torch.allclose(attend(q, k, v, mask), expected, atol=0.01)

    @pytest.mark.parametrize("num_keys", KEYS)
    @pytest.mark.parametrize("dtype", TOLERANCE)
    @pytest.mark.parametrize("bias", [False, True])
    def test_an_empty_row_is_exactly_zero(self, num_keys: int, dtype: torch.dtype, bias: bool) -> None:
        q, k, v = qkv(num_keys, dtype=dtype, grad=True)
        added = torch.randn(1, H, T, num_keys) if bias else None
        out = attend(q, k, v, masks(num_keys)["empty row"], bias=added)
        assert out[:, :, 3].eq(0).all()
        assert out[:, :, 2].ne(0).all()
        out.float().square().sum().backward()
        for tensor in (q, k, v):
            assert tensor.grad is not None
            assert tensor.grad.isfinite().all()
        assert q.grad is not None
        assert q.grad[:, :, 3].eq(0).all()

    @pytest.mark.parametrize("num_keys", KEYS)
    def test_an_empty_row_leaves_the_gradients_of_the_others_alone(self, num_keys: int) -> None:
        gradients = []
        for name in ("per head", "empty row"):
            inputs = qkv(num_keys, dtype=torch.float64, grad=True)
            out = attend(*inputs, masks(num_keys)[name])
            out[:, :, [0, 1, 2, 4]].square().sum().backward()
            gradients.append([tensor.grad for tensor in inputs])
        torch.testing.assert_close(gradients[0], gradients[1], atol=1e-12, rtol=0)

    def test_all_keys_of_a_row_of_the_batch_are_padding(self) -> None:
        for num_keys in KEYS:
            q, k, v = qkv(num_keys)
            out = attend(q, k, v, padding_mask(torch.tensor([num_keys, 0]), num_keys))
            assert out[1].eq(0).all()
            torch.testing.assert_close(out[0], attend(q, k, v)[0], atol=TOLERANCE[torch.float32], rtol=0)

    @pytest.mark.parametrize("num_keys", KEYS)
    def test_large_scores_stay_finite_in_half_precision(self, num_keys: int) -> None:
        q, k, v = qkv(num_keys, dtype=torch.float16)
        out = attend(q * 60, k, v, masks(num_keys)["empty row"])
        assert out.isfinite().all()

    @pytest.mark.parametrize("num_keys", KEYS)
    def test_half_numbers_whose_product_alone_would_leave_their_range(self, num_keys: int) -> None:
        q, k, v = qkv(num_keys, dtype=torch.float16)
        out = attend(torch.full_like(q, 150.0), torch.full_like(k, 100.0), v)  # 105,000, and scaled 39,686
        assert out.isfinite().all()

    @pytest.mark.parametrize("num_keys", KEYS)
    def test_dropout_drops(self, num_keys: int) -> None:
        q, k, v = qkv(num_keys)
        torch.manual_seed(5)
        assert not torch.equal(attend(q, k, v, dropout=0.5), attend(q, k, v))


def attention(seed: int = 0, **arguments: Any) -> MultiHeadAttention:
    torch.manual_seed(seed)
    return MultiHeadAttention(D, H, **arguments).eval()


class TestMultiHeadAttention:
    @pytest.mark.parametrize("num_heads", [0, 2, -1, 5])
    def test_heads_must_divide_the_width(self, num_heads: int) -> None:
        with pytest.raises(ShapeError, match=f"`num_heads` must divide d_model = 21, but is {num_heads}"):
            MultiHeadAttention(21, num_heads)

    def test_split_gives_each_head_its_features_of_every_token(self) -> None:
        # as many tokens as heads, so that a missing transpose keeps the shape
        x = torch.arange(8.0).view(1, 2, 4)
        (heads,) = MultiHeadAttention(4, 2).split_heads(x, 1)
        assert heads[0].tolist() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]

    def test_merge_undoes_split(self) -> None:
        x = torch.arange(8.0).view(1, 2, 4)
        layer = MultiHeadAttention(4, 2)
        assert torch.equal(layer.merge_heads(layer.split_heads(x, 1)[0]), x)
        layer, x = MultiHeadAttention(D, H), torch.randn(B, T, D)
        assert torch.equal(layer.merge_heads(layer.split_heads(x, 1)[0]), x)

    def test_is_the_formula_with_four_projections(self) -> None:
        layer, x = attention(), torch.randn(B, T, D)
        q, k, v = (
            F.linear(x, w, b).view(B, T, H, K).transpose(1, 2)
            for w, b in zip(layer.qkv.weight.chunk(3), layer.qkv.bias.chunk(3), strict=True)
        )
        weights = (q @ k.transpose(-1, -2) / math.sqrt(K)).softmax(-1)
        expected = layer.out((weights @ v).transpose(1, 2).reshape(B, T, D))
        torch.testing.assert_close(layer(x), expected)

    def test_few_queries_keep_one_copy_of_their_heads_for_the_gradient(self) -> None:
        layer, x = attention(), torch.randn(B, T, D)
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            memory = tensor.untyped_storage()
            kept[memory.data_ptr()] = memory.nbytes()
            return tensor

        held: list[Tensor] = []  # or a place that is free again might count for another
        with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t) or keep(t), lambda t: t):  # type: ignore[func-returns-value]
            layer(x)
        for weight in layer.parameters():
            kept.pop(weight.data_ptr(), None)
        read = merged = B * T * D
        weights, heads = B * H * T * T, 3 * B * T * D
        assert sorted(kept.values()) == [4 * numbers for numbers in (weights, read, merged, heads)]

    def test_cross_attention_is_the_same_maps_on_two_sequences(self) -> None:
        layer, x, memory = attention(), torch.randn(B, T, D), torch.randn(B, 11, D)
        q = F.linear(x, layer.qkv.weight[:D], layer.qkv.bias[:D]).view(B, T, H, K).transpose(1, 2)
        k = F.linear(memory, layer.qkv.weight[D : 2 * D], layer.qkv.bias[D : 2 * D]).view(B, 11, H, K).transpose(1, 2)
        v = F.linear(memory, layer.qkv.weight[2 * D :], layer.qkv.bias[2 * D :]).view(B, 11, H, K).transpose(1, 2)
        expected = layer.out(layer.merge_heads(attend_plain(q, k, v)[0]))
        torch.testing.assert_close(layer(x, memory=layer.keys_values(memory)), expected)

    def test_attending_to_itself_as_memory_is_self_attention(self) -> None:
        layer, x = attention(bias=False), torch.randn(B, T, D)
        torch.testing.assert_close(layer(x, memory=layer.keys_values(x)), layer(x))

    def test_an_empty_row_keeps_only_the_bias_of_the_output_projection(self) -> None:
        layer, x = attention(), torch.randn(B, T, D)
        out = layer(x, Visibility(torch.tensor([T, 0])))
        torch.testing.assert_close(out[1], layer.out.bias.expand(T, D), atol=0, rtol=0)

    @pytest.mark.parametrize("bias", [False, True])
    def test_gradient_reaches_every_parameter(self, bias: bool) -> None:
        layer = attention(bias=bias, positions=RelativeBias(H, num_buckets=4, max_distance=5))
        layer(torch.randn(B, T, D), Visibility(torch.tensor([T, 3]))).square().sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.ne(0).any(), name

    def test_no_bias_means_none_anywhere(self) -> None:
        layer = attention(bias=False)
        assert [name for name, _ in layer.named_parameters()] == ["qkv.weight", "out.weight"]
        layer(torch.randn(B, T, D), memory=layer.keys_values(torch.randn(B, 11, D)))

    def test_scale_reaches_the_scores(self) -> None:
        x = torch.randn(B, T, D)
        assert not torch.allclose(attention(scale=1.0)(x), attention()(x), atol=1e-3)

    def test_dropout_only_while_training(self) -> None:
        layer, x = attention(dropout=0.5), torch.randn(B, T, D)
        assert torch.equal(layer(x), layer(x))
        layer.train()
        assert not torch.equal(layer(x), layer(x))

    @pytest.mark.parametrize("length", [T, SHORT + 5])
    def test_causal_positions_see_no_later_one(self, length: int) -> None:
        layer = attention()
        x = torch.randn(B, length, D)
        changed = x.clone()
        changed[:, 3:] += 1
        before, after = (layer(each, Visibility(causal=True)) for each in (x, changed))
        torch.testing.assert_close(before[:, :3], after[:, :3], atol=0, rtol=0)
        assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)

    @pytest.mark.parametrize("length", [T, SHORT + 5])
    @pytest.mark.parametrize("positions", ["none", "rotary", "relative bias"])
    @pytest.mark.parametrize("chunk", [1, 3])
    def test_cached_is_a_full_forward(self, length: int, positions: str, chunk: int) -> None:
        part = {"none": None, "rotary": Rotary(8), "relative bias": RelativeBias(H, bidirectional=False)}[positions]
        torch.manual_seed(0)
        layer = MultiHeadAttention(8 * H, H, positions=part)
        x = torch.randn(B, length, 8 * H)
        cache = KeyValueCache(capacity=2)
        steps = [layer(new, Visibility(causal=True, offset=cache.length), cache=cache) for new in x.split(chunk, 1)]
        full = layer(x, Visibility(causal=True))
        torch.testing.assert_close(torch.cat(steps, dim=1), full, atol=TOLERANCE[torch.float32], rtol=0)


class TestListening:
    @pytest.mark.parametrize("length", [T, SHORT + 5])
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("padded", [False, True])
    def test_the_output_stays_equal_bit_for_bit(self, length: int, causal: bool, padded: bool) -> None:
        layer, x = attention(), torch.randn(B, length, D)
        visible = Visibility(torch.tensor([length, 2]) if padded else None, causal=causal)
        alone = layer(x, visible)
        heard: list[Tensor] = []
        layer.listen(heard.append)
        assert torch.equal(layer(x, visible), alone)
        (weights,) = heard
        assert weights.shape == (B, H, length, length)

    def test_the_output_stays_equal_with_dropout(self) -> None:
        layer, x = attention(dropout=0.5).train(), torch.randn(B, T, D)
        torch.manual_seed(7)
        alone = layer(x)
        heard: list[Tensor] = []
        layer.listen(heard.append)
        torch.manual_seed(7)
        assert torch.equal(layer(x), alone)
        torch.testing.assert_close(heard[0].sum(-1), torch.ones(B, H, T))  # told without dropout

    @pytest.mark.parametrize("length", [T, SHORT + 5])
    @pytest.mark.parametrize("positions", [None, RelativeBias(H)])
    @pytest.mark.parametrize("padded", [False, True])
    def test_the_weights_are_those_of_the_output(
        self, length: int, positions: RelativeBias | None, padded: bool
    ) -> None:
        layer, x = attention(positions=positions), torch.randn(B, length, D)
        heard: list[Tensor] = []
        layer.listen(heard.append)
        lengths = torch.tensor([length, 2 if padded else length])
        out = layer(x, Visibility(lengths if padded else None, causal=True))
        _, _, v = layer.split_heads(layer.qkv(x), 3)
        rebuilt = layer.out(layer.merge_heads(heard[0] @ v))
        torch.testing.assert_close(rebuilt, out, atol=TOLERANCE[torch.float32], rtol=0)
        allowed = causal_mask(length, length) & padding_mask(lengths, length)
        assert heard[0].masked_select(~allowed).eq(0).all()

    def test_weights_of_queries_and_memory_of_other_lengths(self) -> None:
        layer, heard = attention(), []
        layer.listen(heard.append)
        layer(torch.randn(B, T, D), memory=layer.keys_values(torch.randn(B, 11, D)))
        assert heard[0].shape == (B, H, T, 11)

    def test_weights_carry_no_gradient(self) -> None:
        layer, heard = attention(), []
        layer.listen(heard.append)
        layer(torch.randn(B, T, D, requires_grad=True))
        assert not heard[0].requires_grad

    def test_listening_ends_when_told(self) -> None:
        layer, heard, other = attention(), [], []
        stop = layer.listen(heard.append)
        layer.listen(other.append)
        layer(torch.randn(B, T, D))
        stop()
        layer(torch.randn(B, T, D))
        assert (len(heard), len(other)) == (1, 2)
