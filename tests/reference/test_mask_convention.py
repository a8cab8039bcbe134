"""One convention of masks and axes from embedding to loss, statement by statement, with numbers worked by hand.

Axes: B batch, S source, T target, L either, D = d_model, H heads, K = D / H, V vocabulary. Sizes throughout: B = 2,
S = 6, T = 4, D = 12, H = 3, K = 4, d_ff = 24, V = 32.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.models import Dropout, TransformerSpec, build
from regard.nn import (
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    FrameMap,
    MultiHeadAttention,
    PostNorm,
    Sinusoidal,
    TokenTable,
    Visibility,
    attend,
    attend_plain,
    causal_mask,
    check_mask,
    combine,
    lengths_from_ids,
    padding_mask,
    sinusoidal_table,
)
from regard.protocols import BOS, EOS, PAD
from regard.training import smoothed_cross_entropy

LAYOUT = TransformerSpec(
    source_vocab=32,
    target_vocab=32,
    d_model=12,
    num_heads=3,
    d_ff=24,
    encoder_layers=1,
    decoder_layers=1,
    max_len=32,
    residual="post",
    activation="relu",
    scale_embeddings=True,
    dropout=Dropout(embedding=0.0, attention=0.0, feed_forward=0.0, residual=0.0),
)
"""The layout, as it is run: no dropout of attention weights ever, and here none at all."""

SOURCE = torch.tensor([[4, 5, 6, 2, 0, 0], [7, 8, 9, 10, 2, 0]])
TARGET = torch.tensor([[1, 11, 12, 2, 0], [1, 13, 14, 15, 2]])
TARGET_IN, LABELS = TARGET[:, :-1], TARGET[:, 1:]

HALVES = [torch.float32, torch.float16, torch.bfloat16]


def encoder_layer() -> EncoderLayer:
    return EncoderLayer(
        self_attention=MultiHeadAttention(12, 3),
        feed_forward=FeedForward(12, 24, F.relu),
        residuals=(PostNorm(nn.LayerNorm(12)), PostNorm(nn.LayerNorm(12))),
    )


def decoder_layer() -> DecoderLayer:
    return DecoderLayer(
        self_attention=MultiHeadAttention(12, 3),
        cross_attention=MultiHeadAttention(12, 3),
        feed_forward=FeedForward(12, 24, F.relu),
        residuals=(PostNorm(nn.LayerNorm(12)), PostNorm(nn.LayerNorm(12)), PostNorm(nn.LayerNorm(12))),
    )


class TestPositions:
    def test_three_places_of_width_four(self) -> None:
        expected = [[0, 1, 0, 1], [0.8415, 0.5403, 0.0100, 0.9999], [0.9093, -0.4161, 0.0200, 0.9998]]
        # the last places of the worked numbers are cut, not rounded
        torch.testing.assert_close(sinusoidal_table(3, 4), torch.tensor(expected), atol=1e-4, rtol=0)

    def test_width_five_has_sines_in_columns_0_2_4_and_cosines_in_1_3(self) -> None:
        table, place = sinusoidal_table(7, 5), torch.arange(7.0)
        for column, wave in enumerate([torch.sin, torch.cos, torch.sin, torch.cos, torch.sin]):
            frequency = 10_000 ** -(2 * (column // 2) / 5)
            torch.testing.assert_close(table[:, column], wave(place * frequency), atol=1e-6, rtol=0)

    @pytest.mark.parametrize("d_model", [1, 3, 5, 127])
    def test_any_odd_width_works(self, d_model: int) -> None:
        assert Sinusoidal(d_model, 11).embed(torch.zeros(2, 7, d_model)).shape == (2, 7, d_model)

    def test_one_table_serves_every_row_of_the_batch(self) -> None:
        out = Sinusoidal(12, 32).embed(torch.zeros(2, 6, 12))
        assert torch.equal(out[0], out[1])
        assert torch.equal(out[0], sinusoidal_table(32, 12)[:6])

    def test_takes_the_dtype_of_its_input(self) -> None:
        for dtype in HALVES:
            assert Sinusoidal(12).embed(torch.zeros(2, 6, 12, dtype=dtype)).dtype == dtype

    def test_another_width_or_too_long_an_input_is_refused(self) -> None:
        with pytest.raises(ShapeError, match="12 wide, but the embeddings are 10"):
            Sinusoidal(12, 32).embed(torch.zeros(2, 6, 10))
        with pytest.raises(ShapeError, match=r"33 tokens does not fit .* max_len = 32"):
            Sinusoidal(12, 32).embed(torch.zeros(2, 33, 12))

    def test_moves_with_the_model_and_is_not_saved(self) -> None:
        model = build(LAYOUT)
        assert not [name for name in model.state_dict() if "positions" in name]
        assert model.to("meta").source_embedding.positions.table.device.type == "meta"


class TestProjections:
    def test_a_linear_map_by_hand(self) -> None:
        frames = FrameMap(3, 2)
        with torch.no_grad():
            frames.map.weight[:] = torch.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
            frames.map.bias.zero_()
        assert frames(torch.tensor([[[1.0, 2.0, 3.0]]])).tolist() == [[[4.0, 4.0]]]

    def test_one_input_three_projections_that_differ(self) -> None:
        attention = MultiHeadAttention(12, 3)
        q, k, v = attention.split_heads(attention.qkv(torch.randn(2, 6, 12)), 3)
        assert not torch.allclose(q, k)
        assert not torch.allclose(k, v)

    def test_a_width_that_heads_do_not_divide_is_refused(self) -> None:
        with pytest.raises(ShapeError, match="must divide d_model = 12, but is 5"):
            MultiHeadAttention(12, 5)


class TestHeads:
    X = torch.arange(8.0).view(1, 2, 4)
    """Two tokens and two heads: a forgotten transpose would keep the shape."""

    def test_splitting_gives_each_head_its_features_of_both_tokens(self) -> None:
        (heads,) = MultiHeadAttention(4, 2).split_heads(self.X, 1)
        assert heads[0, 0].tolist() == [[0, 1], [4, 5]]
        assert heads[0, 1].tolist() == [[2, 3], [6, 7]]
        wrong = self.X.view(1, 2, 2, 2)
        assert wrong.shape == heads.shape
        assert wrong[0, 0].tolist() == [[0, 1], [2, 3]]

    def test_merging_gives_the_tokens_back(self) -> None:
        attention = MultiHeadAttention(4, 2)
        assert torch.equal(attention.merge_heads(attention.split_heads(self.X, 1)[0]), self.X)

    def test_shapes_on_the_way(self) -> None:
        attention = MultiHeadAttention(12, 3)
        (heads,) = attention.split_heads(torch.zeros(2, 6, 12), 1)
        assert heads.shape == (2, 3, 6, 4)
        assert attention.merge_heads(torch.zeros(2, 3, 4, 4)).shape == (2, 4, 12)


class TestScaledDotProduct:
    def test_scores_1_2_3_by_keys(self) -> None:
        scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])[None, None]
        _, weights = attend_plain(scores, torch.eye(3)[None, None], torch.eye(3)[None, None], scale=1.0)
        torch.testing.assert_close(
            weights[0, 0], torch.tensor([[0.0900, 0.2447, 0.6652]]).expand(2, 3), atol=5e-5, rtol=0
        )

    def test_four_targets_over_six_sources(self) -> None:
        q, k, v = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
        out, weights = attend_plain(q, k, v)
        assert weights.shape == (2, 3, 4, 6)
        assert out.shape == (2, 3, 4, 4)
        torch.testing.assert_close(weights, (q @ k.transpose(-2, -1) / math.sqrt(4)).softmax(dim=-1))

    def test_heads_never_mix(self) -> None:
        q, k, v = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
        out, _ = attend_plain(q, k, v)
        for head in range(3):
            alone, _ = attend_plain(q[:, head, None], k[:, head, None], v[:, head, None])
            torch.testing.assert_close(out[:, head, None], alone)

    @pytest.mark.parametrize("shape", [None, (4, 6), (2, 4, 6), (2, 1, 1, 6), (2, 3, 4, 6)])
    def test_is_torch_attention_under_masks_of_two_three_and_four_axes(self, shape: tuple[int, ...] | None) -> None:
        q, k, v = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
        mask = None
        if shape is not None:
            mask = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.5
            mask[..., 0] = True
            mask = check_mask(mask)
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        torch.testing.assert_close(attend(q, k, v, mask), expected)
        torch.testing.assert_close(attend_plain(q, k, v, mask)[0], expected)

    def test_the_whole_forward_unrolled(self) -> None:
        attention, x, memory = MultiHeadAttention(12, 3), torch.randn(2, 4, 12), torch.randn(2, 6, 12)
        mask = padding_mask(torch.tensor([6, 3]), 6)
        q, k, v = (
            F.linear(each, weight, bias).view(2, -1, 3, 4).transpose(1, 2)
            for each, weight, bias in zip(
                (x, memory, memory), attention.qkv.weight.chunk(3), attention.qkv.bias.chunk(3), strict=True
            )
        )
        merged = attend_plain(q, k, v, mask)[0].transpose(1, 2).contiguous().view(2, 4, 12)
        out = attention(x, Visibility(torch.tensor([6, 3])), memory=attention.keys_values(memory))
        torch.testing.assert_close(out, attention.out(merged))


class TestWhatAMaskIs:
    def test_true_may_be_attended_to(self) -> None:
        q, k, v = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
        only_second = torch.zeros(4, 6, dtype=torch.bool)
        only_second[:, 1] = True
        out, _ = attend_plain(q, k, v, check_mask(only_second))
        torch.testing.assert_close(out, v[:, :, 1:2].expand(2, 3, 4, 4))

    def test_two_axes_are_queries_and_keys_for_every_row_and_head(self) -> None:
        assert check_mask(causal_mask(4, 6)).shape == (1, 1, 4, 6)

    def test_two_axes_are_never_padding_flags_even_where_the_sizes_would_fit(self) -> None:
        # B = Lq = 2: read as [B, Lk] this would hide the last key of the second row of the batch
        mask = check_mask(torch.tensor([[True, True, True], [True, True, False]]))
        assert mask.shape == (1, 1, 2, 3)

    def test_three_axes_are_one_mask_per_row(self) -> None:
        assert check_mask(torch.ones(2, 4, 6, dtype=torch.bool)).shape == (2, 1, 4, 6)

    def test_four_axes_stay(self) -> None:
        for shape in ((2, 1, 1, 6), (2, 3, 4, 6), (1, 3, 1, 6)):
            assert check_mask(torch.ones(shape, dtype=torch.bool)).shape == shape

    def test_0_and_minus_infinity_are_refused(self) -> None:
        additive = torch.zeros(4, 6).masked_fill(~causal_mask(4, 6), -math.inf)
        with pytest.raises(ShapeError, match="`mask == 0` for an additive mask"):
            check_mask(additive)

    def test_0_and_1_are_refused_too(self) -> None:
        for dtype in (torch.int64, torch.uint8, torch.float32):
            with pytest.raises(ShapeError, match=r"must be boolean.*`mask != 0` for 0/1"):
                check_mask(causal_mask(4, 6).to(dtype))

    def test_masks_follow_attention_to_its_device(self) -> None:
        attention, mask = MultiHeadAttention(12, 3).to("meta"), causal_mask(4, 4)
        assert attention(torch.zeros(2, 4, 12, device="meta"), Visibility(allowed=mask)).shape == (2, 4, 12)


class TestPaddingMask:
    def test_three_tokens_and_three_paddings(self) -> None:
        lengths = lengths_from_ids(torch.tensor([[21, 22, 23, PAD, PAD, PAD]]))
        assert padding_mask(lengths, 6).int().flatten().tolist() == [1, 1, 1, 0, 0, 0]

    def test_is_shared_by_all_heads_and_queries(self) -> None:
        ids = torch.tensor([[4, 5, 0], [6, 0, 0]])
        mask = padding_mask(lengths_from_ids(ids), 3)
        assert torch.equal(mask, (ids != PAD)[:, None, None, :])
        assert mask.shape == (2, 1, 1, 3)
        assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]

    def test_hides_keys_and_does_not_silence_queries(self) -> None:
        layer, x = encoder_layer(), torch.randn(2, 6, 12)
        out = layer(x, Visibility(torch.tensor([3, 6])))
        assert out[0, 3:].ne(0).any(dim=-1).all()

    def test_one_mask_serves_the_encoder_and_cross_attention(self) -> None:
        visible = Visibility(torch.tensor([4, 5]))
        encoder, decoder = encoder_layer(), decoder_layer()
        memory = encoder(torch.randn(2, 6, 12), visible)
        heard: list[Tensor] = []
        decoder.cross_attention.listen(heard.append)
        decoder(torch.randn(2, 4, 12), decoder.cross_attention.keys_values(memory), Visibility(causal=True), visible)
        assert heard[0].shape == (2, 3, 4, 6)
        assert heard[0][0, :, :, 4:].eq(0).all()
        assert heard[0][1, :, :, 5:].eq(0).all()


class TestCausalMask:
    def test_four_places(self) -> None:
        assert causal_mask(4, 4).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]

    def test_joins_padding(self) -> None:
        lengths = lengths_from_ids(TARGET_IN)
        mask = combine(padding_mask(lengths, 4), causal_mask(4, 4))
        expected = (TARGET_IN != PAD)[:, None, None, :] & torch.ones(4, 4).tril().bool()[None, None]
        assert mask is not None
        assert mask.shape == (2, 1, 4, 4)
        assert torch.equal(mask, expected)

    def test_a_layer_without_one_is_not_causal(self) -> None:
        layer, x = decoder_layer(), torch.randn(2, 4, 12)
        memory = layer.cross_attention.keys_values(torch.randn(2, 6, 12))
        changed = x.clone()
        changed[:, 3] += 1
        assert not torch.allclose(layer(x, memory, Visibility())[:, :3], layer(changed, memory, Visibility())[:, :3])


class TestTheEmptyRow:
    SCORES = torch.tensor([[2.0, 1.0, 0.0], [3.0, 2.0, 1.0]])[None, None]
    MASK = torch.tensor([[True, False, True], [False, False, False]])[None, None]
    EYE = torch.eye(3)[None, None]

    def test_weighs_nothing(self) -> None:
        _, weights = attend_plain(self.SCORES, self.EYE, self.EYE, self.MASK, scale=1.0)
        expected = torch.tensor([[0.8808, 0.0, 0.1192], [0.0, 0.0, 0.0]])
        torch.testing.assert_close(weights[0, 0], expected, atol=5e-5, rtol=0)

    def test_a_plain_softmax_would_be_nan_and_a_finite_penalty_uniform(self) -> None:
        assert torch.full((3,), -math.inf).softmax(-1).isnan().all()
        torch.testing.assert_close(torch.full((3,), -1e9).softmax(-1), torch.full((3,), 1 / 3))

    def test_minus_a_billion_has_no_half_precision(self) -> None:
        assert torch.finfo(torch.float16).max < 1e9

    @pytest.mark.parametrize("dtype", HALVES)
    @pytest.mark.parametrize("num_keys", [6, 37])
    def test_sums_to_zero_with_finite_gradients(self, dtype: torch.dtype, num_keys: int) -> None:
        q = torch.randn(2, 3, 4, 4).to(dtype).requires_grad_()
        k, v = (torch.randn(2, 3, num_keys, 4).to(dtype).requires_grad_() for _ in range(2))
        mask = torch.ones(2, 1, 4, num_keys, dtype=torch.bool)
        mask[1, :, 2] = False
        for out in (attend(q, k, v, mask), attend_plain(q, k, v, mask)[0]):
            assert out.dtype == dtype
            assert out[1, :, 2].eq(0).all()
            assert out[1, :, 1].ne(0).any()
            gradients = torch.autograd.grad(out.float().square().sum(), (q, k, v))
            assert all(gradient.isfinite().all() for gradient in gradients)

    def test_keeps_the_bias_of_the_projection_after_it(self) -> None:
        attention = MultiHeadAttention(12, 3)
        nn.init.normal_(attention.out.bias)
        out = attention(torch.randn(2, 6, 12), Visibility(torch.tensor([6, 0])))
        assert torch.equal(out[1], attention.out.bias.expand(6, 12))


class TestFeedForward:
    def test_relu_cuts_what_is_negative(self) -> None:
        layer = FeedForward(1, 1, F.relu, bias=False)
        nn.init.ones_(layer.inner.weight)
        nn.init.ones_(layer.outer.weight)
        x = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0]).view(1, 5, 1)
        assert layer(x).flatten().tolist() == [0, 0, 0, 1, 3]

    def test_widens_to_24_and_back(self) -> None:
        layer = FeedForward(12, 24, F.relu)
        assert layer.inner(torch.zeros(2, 6, 12)).shape == (2, 6, 24)
        assert layer(torch.zeros(2, 6, 12)).shape == (2, 6, 12)

    def test_dropout_of_a_half_leaves_zeros_and_twos_and_evaluation_ones(self) -> None:
        layer = FeedForward(1, 1009, F.relu, dropout=0.5, bias=False)
        nn.init.ones_(layer.inner.weight)
        dropped: list[Tensor] = []
        layer.outer.register_forward_pre_hook(lambda module, inputs: dropped.append(inputs[0]))
        torch.manual_seed(0)
        layer(torch.ones(1, 1, 1))
        layer.eval()(torch.ones(1, 1, 1))
        assert dropped[0].unique().tolist() == [0, 2]
        assert dropped[1].unique().tolist() == [1]


class TestNormAndResidual:
    def test_each_token_has_a_mean_and_a_variance_of_its_own(self) -> None:
        # (1, 3): mean 2, variance 1; (10, 14): mean 12, variance 4, by 2 and not by 1
        out = nn.LayerNorm(2)(torch.tensor([[[1.0, 3.0], [10.0, 14.0]]]))
        torch.testing.assert_close(out, torch.tensor([[[-1.0, 1.0], [-1.0, 1.0]]]), atol=1e-5, rtol=0)

    def test_update_then_sum_then_norm(self) -> None:
        layer, x = encoder_layer(), torch.randn(2, 6, 12)
        update = layer.self_attention(x)
        y = layer.self_residual.norm(x + update)
        y = layer.feed_forward_residual.norm(y + layer.feed_forward(y))
        torch.testing.assert_close(layer(x), y)

    def test_norms_of_a_layer_are_separate(self) -> None:
        layer = decoder_layer()
        norms = {layer.self_residual.norm, layer.cross_residual.norm, layer.feed_forward_residual.norm}
        assert len(norms) == 3

    def test_self_and_cross_attention_share_nothing(self) -> None:
        layer = decoder_layer()
        own = {parameter.data_ptr() for parameter in layer.self_attention.parameters()}
        assert own.isdisjoint(parameter.data_ptr() for parameter in layer.cross_attention.parameters())


class TestEmbedding:
    def test_the_row_of_padding_is_zero_and_learns_nothing(self) -> None:
        tokens = TokenTable(5, 3)
        vectors = tokens(torch.tensor([[1, 2, 0]]))
        assert vectors.shape == (1, 3, 3)
        assert vectors[0, 2].tolist() == [0, 0, 0]
        vectors.sum().backward()
        assert tokens.table.weight.grad is not None
        assert tokens.table.weight.grad[0].tolist() == [0, 0, 0]

    def test_with_its_position_padding_is_no_longer_zero(self) -> None:
        embedding = Embedding(TokenTable(5, 3), Sinusoidal(3, 7))
        assert embedding(torch.tensor([[1, 2, 0]]))[0, 2].ne(0).any()


class TestExample:
    """Two pairs through one layer each way, and back."""

    def test_shapes_loss_and_gradients(self) -> None:
        torch.manual_seed(42)
        model = build(LAYOUT)
        lengths = lengths_from_ids(SOURCE)
        memory = model.encode(SOURCE, lengths)
        hidden = model.decode(TARGET_IN, memory, lengths)
        logits = model.output(hidden)
        assert memory.shape == (2, 6, 12)
        assert hidden.shape == (2, 4, 12)
        assert logits.shape == (2, 4, 32)
        loss = F.cross_entropy(logits.reshape(-1, 32), LABELS.reshape(-1), ignore_index=PAD)
        assert loss.isfinite()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name

    def test_labels_are_the_input_one_place_on(self) -> None:
        assert TARGET_IN.tolist() == [[1, 11, 12, 2], [1, 13, 14, 15]]
        assert LABELS.tolist() == [[11, 12, 2, 0], [13, 14, 15, 2]]
        assert LABELS.reshape(-1).tolist() == [11, 12, 2, 0, 13, 14, 15, 2]

    def test_our_loss_is_the_sum_of_cross_entropies_of_real_labels(self) -> None:
        logits, labels = torch.randn(2, 4, 32).reshape(-1, 32), LABELS.reshape(-1)
        expected = F.cross_entropy(logits, labels, ignore_index=PAD) * 7  # seven of eight labels are real
        torch.testing.assert_close(smoothed_cross_entropy(logits, labels, 0.0), expected)

    def test_a_batch_of_padding_alone_costs_nothing_and_is_not_nan(self) -> None:
        logits = torch.randn(8, 32, requires_grad=True)
        loss = smoothed_cross_entropy(logits, torch.full((8,), PAD), 0.1)
        loss.backward()
        assert loss.item() == 0
        assert logits.grad is not None
        assert logits.grad.eq(0).all()

    def test_the_loss_reaches_the_encoder_through_the_memory(self) -> None:
        model = build(LAYOUT)
        model(SOURCE, TARGET_IN).square().sum().backward()
        for parameter in model.encoder.parameters():
            assert parameter.grad is not None
            assert parameter.grad.ne(0).any()

    def test_later_target_ids_move_no_earlier_hidden_state(self) -> None:
        model = build(LAYOUT)
        changed = TARGET_IN.clone()
        changed[:, 2:] = 9
        lengths = lengths_from_ids(SOURCE)
        before, after = (model.hidden(SOURCE, each, lengths) for each in (TARGET_IN, changed))
        assert torch.equal(before[:, :2], after[:, :2])
        assert not torch.allclose(before[:, 2:], after[:, 2:])

    def test_hidden_source_vectors_move_no_target(self) -> None:
        model = build(LAYOUT)
        visible, vectors = Visibility(lengths_from_ids(SOURCE)), model.source_embedding(SOURCE)
        changed = vectors.masked_fill((SOURCE == PAD)[:, :, None], 100.0)
        hidden = []
        for each in (vectors, changed):
            memory = model.encoder(each, visible)
            seen = model.decoder.keys_values(memory)
            hidden.append(model.decoder(model.target_embedding(TARGET_IN), seen, Visibility(causal=True), visible))
        assert torch.equal(*hidden)

    def test_generation_goes_on_from_the_start_token_until_the_end_or_the_limit(self) -> None:
        torch.manual_seed(42)
        model = build(LAYOUT).eval()
        state, token = model.start(SOURCE[:1, :4]), torch.tensor([BOS])
        made = [BOS]
        with torch.no_grad():
            while made[-1] != EOS and len(made) < 9:
                step = model.step(token, state)
                token, state = step.logits.argmax(dim=-1), step.state
                made.append(int(token))
            # one forward over what was made predicts each of its tokens in turn
            logits = model(SOURCE[:1, :4], torch.tensor([made[:-1]]))
        assert logits.argmax(dim=-1)[0].tolist() == made[1:]
