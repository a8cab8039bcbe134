"""The assembled post-norm model of 57,458,496 parameters, statement by statement, with numbers worked by hand.

Axes: B batch, S source, T target, D = d_model, H heads, K = D / H.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.pair_batch import collate
from regard.errors import ShapeError
from regard.models import Dropout, Sinusoidal, Transformer, TransformerSpec, build
from regard.nn import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    PostNorm,
    TokenTable,
    Visibility,
    attend_plain,
    causal_mask,
    combine,
    lengths_from_ids,
    padding_mask,
)
from regard.nn import Sinusoidal as SinusoidalPositions
from regard.protocols import BOS, EOS
from regard.training import Seq2SeqObjective

LAYOUT = TransformerSpec(
    source_vocab=10_000,
    target_vocab=8_000,
    d_model=512,
    num_heads=8,
    d_ff=2048,
    encoder_layers=6,
    decoder_layers=6,
    positions=Sinusoidal(),
    max_len=5000,
    norm="layer",
    residual="post",
    encoder_final_norm=False,
    decoder_final_norm=False,
    activation="relu",
    scale_embeddings=True,
    tie="none",
    dropout=Dropout(embedding=0.1, attention=0.1, feed_forward=0.1, residual=0.1),
)
"""The whole of the layout, in one spec."""


@pytest.fixture(scope="module")
def base() -> Transformer:
    """The model in full size; on the meta device, where shapes are real and numbers are not."""
    with torch.device("meta"):
        return build(LAYOUT)


@pytest.fixture
def small() -> Transformer:
    """The same layout, small enough for numbers."""
    torch.manual_seed(42)
    spec = TransformerSpec(source_vocab=17, target_vocab=13, d_model=12, num_heads=3, d_ff=23, max_len=50)
    return build(spec).eval()


def num_parameters(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters() if parameter.requires_grad)


def encoder_layer(d_model: int = 256, num_heads: int = 8, d_ff: int = 1024) -> EncoderLayer:
    return EncoderLayer(
        self_attention=MultiHeadAttention(d_model, num_heads),
        feed_forward=FeedForward(d_model, d_ff, F.relu),
        residuals=(PostNorm(nn.LayerNorm(d_model)), PostNorm(nn.LayerNorm(d_model))),
    )


def decoder_layer(d_model: int = 256, num_heads: int = 8, d_ff: int = 1024) -> DecoderLayer:
    return DecoderLayer(
        self_attention=MultiHeadAttention(d_model, num_heads),
        cross_attention=MultiHeadAttention(d_model, num_heads),
        feed_forward=FeedForward(d_model, d_ff, F.relu),
        residuals=(
            PostNorm(nn.LayerNorm(d_model)),
            PostNorm(nn.LayerNorm(d_model)),
            PostNorm(nn.LayerNorm(d_model)),
        ),
    )


class TestPositions:
    def test_two_equal_tokens_are_told_apart_by_positions_alone(self, small: Transformer) -> None:
        vectors = small.target_embedding.vectors(torch.tensor([[5, 5]]))
        embedded = small.target_embedding(torch.tensor([[5, 5]]))
        assert torch.equal(vectors[0, 0], vectors[0, 1])
        assert not torch.equal(embedded[0, 0], embedded[0, 1])

    def test_width_four_divides_by_one_and_by_a_hundred(self) -> None:
        table = SinusoidalPositions(4, 100).table
        assert table[0].tolist() == [0, 1, 0, 1]
        torch.testing.assert_close(table[1], torch.tensor([0.8415, 0.5403, 0.0100, 0.99995]), atol=5e-5, rtol=0)

    def test_is_added_and_makes_no_sequence_longer(self) -> None:
        positions, x = SinusoidalPositions(128, 100), torch.randn(2, 10, 128)
        assert positions.table.shape == (100, 128)
        out = positions.embed(x)
        assert out.shape == (2, 10, 128)
        for row in range(2):
            torch.testing.assert_close(out[row] - x[row], positions.table[:10], atol=1e-6, rtol=0)

    def test_the_table_is_not_trained_and_moves_with_the_module(self) -> None:
        positions = SinusoidalPositions(128, 100)
        assert list(positions.parameters()) == []
        assert positions.to("meta").table.device.type == "meta"

    def test_beyond_the_table_is_an_error_and_not_extrapolation(self) -> None:
        with pytest.raises(ShapeError, match="a sequence of 101 tokens does not fit"):
            SinusoidalPositions(128, 100).embed(torch.zeros(2, 101, 128))

    def test_odd_widths_have_one_cosine_less(self) -> None:
        assert SinusoidalPositions(5, 3).table[0].tolist() == [0, 1, 0, 1, 0]


class TestHeads:
    def test_256_features_make_8_heads_of_32(self) -> None:
        (heads,) = MultiHeadAttention(256, 8).split_heads(torch.zeros(2, 10, 256), 1)
        assert heads.shape == (2, 8, 10, 32)

    def test_a_width_that_heads_do_not_divide_is_refused(self) -> None:
        with pytest.raises(ShapeError, match="`num_heads` must divide d_model = 256, but is 7"):
            MultiHeadAttention(256, 7)

    def test_two_heads_take_four_of_eight_features_each_and_no_token_less(self) -> None:
        x = torch.arange(24.0).view(1, 3, 8)
        (heads,) = MultiHeadAttention(8, 2).split_heads(x, 1)
        assert heads[0, 0].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
        assert heads[0, 1].tolist() == [[4, 5, 6, 7], [12, 13, 14, 15], [20, 21, 22, 23]]

    def test_the_four_projections_have_weights_of_their_own(self) -> None:
        attention = MultiHeadAttention(256, 8)
        assert num_parameters(attention) == 4 * (256 * 256 + 256)
        q, k, v = attention.qkv.weight.chunk(3)
        maps = [q, k, v, attention.out.weight]
        assert not any(torch.equal(maps[i], maps[j]) for i in range(4) for j in range(i))

    def test_query_and_key_axes_of_ten_each(self) -> None:
        attention, heard = MultiHeadAttention(256, 8), []
        attention.listen(heard.append)
        out = attention(torch.randn(2, 10, 256), memory=attention.keys_values(torch.randn(2, 10, 256)))
        assert out.shape == (2, 10, 256)
        assert heard[0].shape == (2, 8, 10, 10)

    def test_merging_learns_nothing_and_undoes_splitting(self) -> None:
        attention, x = MultiHeadAttention(256, 8), torch.randn(2, 10, 256)
        assert torch.equal(attention.merge_heads(attention.split_heads(x, 1)[0]), x)


class TestAttention:
    Q = torch.tensor([[[[1.0]]]])
    K = torch.tensor([[[[0.0], [math.log(3)]]]])
    V = torch.tensor([[[[2.0], [6.0]]]])

    def test_scores_zero_and_ln_3_weigh_values_2_and_6_to_5(self) -> None:
        out, weights = attend_plain(self.Q, self.K, self.V)
        torch.testing.assert_close(weights.flatten(), torch.tensor([0.25, 0.75]))
        torch.testing.assert_close(out.flatten(), torch.tensor([5.0]))

    def test_allowed_the_first_key_alone_it_reads_2(self) -> None:
        out, weights = attend_plain(self.Q, self.K, self.V, torch.tensor([[[[True, False]]]]))
        assert weights.flatten().tolist() == [1, 0]
        assert out.item() == 2

    def test_allowed_nothing_it_reads_zero_where_a_finite_penalty_would_read_the_mean(self) -> None:
        out, weights = attend_plain(self.Q, self.K, self.V, torch.tensor([[[[False, False]]]]))
        assert weights.flatten().tolist() == [0, 0]
        assert out.item() == 0
        penalised = torch.full((2,), -1e9).softmax(-1)
        assert penalised.tolist() == [0.5, 0.5]

    def test_each_query_shares_its_attention_among_the_keys(self) -> None:
        _, weights = attend_plain(torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 7))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 5))
        assert not torch.allclose(weights.sum(dim=-2), torch.ones(2, 3, 11))

    def test_scores_are_divided_by_the_root_of_the_head_width(self) -> None:
        q, k = torch.randn(1, 1, 3, 32), torch.randn(1, 1, 5, 32)
        _, weights = attend_plain(q, k, k)
        torch.testing.assert_close(weights, torch.softmax(q @ k.transpose(-2, -1) / 32**0.5, dim=-1))

    def test_with_dropout_in_training_a_row_need_not_sum_to_one(self) -> None:
        torch.manual_seed(0)
        q = torch.randn(2, 3, 5, 7)
        _, weights = attend_plain(q, q, q, dropout=0.1)
        assert not torch.allclose(weights.sum(dim=-1), torch.ones(2, 3, 5))


class TestFeedForward:
    def test_goes_to_1024_features_and_back(self) -> None:
        layer = FeedForward(256, 1024, F.relu)
        x = torch.randn(2, 10, 256)
        assert layer.inner(x).shape == (2, 10, 1024)
        assert layer(x).shape == (2, 10, 256)

    def test_is_two_maps_around_a_relu(self) -> None:
        layer, x = FeedForward(12, 23, F.relu), torch.randn(2, 5, 12)
        inner = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
        torch.testing.assert_close(layer(x), inner @ layer.outer.weight.T + layer.outer.bias)

    def test_reads_no_neighbour(self) -> None:
        layer, x = FeedForward(12, 23, F.relu), torch.randn(2, 5, 12)
        torch.testing.assert_close(layer(x)[:, 3:4], layer(x[:, 3:4]))

    def test_longer_sequences_need_no_further_parameter(self) -> None:
        layer = FeedForward(256, 1024, F.relu)
        assert layer(torch.randn(2, 20, 256)).shape == (2, 20, 256)
        assert num_parameters(layer) == 256 * 1024 + 1024 + 1024 * 256 + 256


class TestEncoderLayer:
    def test_one_three_plus_half_minus_half_is_normalised_to_minus_one_one(self) -> None:
        update = torch.tensor([[[0.5, -0.5]]])
        out = PostNorm(nn.LayerNorm(2))(torch.tensor([[[1.0, 3.0]]]), lambda x: update)
        # mean 2, variance 0.25; the small number in the norm moves it by 2e-5
        torch.testing.assert_close(out, torch.tensor([[[-1.0, 1.0]]]), atol=3e-5, rtol=0)

    def test_adds_then_normalises_after_each_sublayer(self) -> None:
        layer, x = encoder_layer(12, 3, 23), torch.randn(2, 5, 12)
        y = layer.self_residual.norm(x + layer.self_attention(x))
        y = layer.feed_forward_residual.norm(y + layer.feed_forward(y))
        torch.testing.assert_close(layer(x), y)

    def test_keeps_the_shape_so_that_layers_can_be_stacked(self) -> None:
        x = torch.randn(2, 10, 256)
        assert encoder_layer()(encoder_layer()(x)).shape == x.shape


class TestDecoderLayer:
    def test_eight_targets_look_at_ten_sources(self) -> None:
        layer, heard = decoder_layer(), []
        layer.cross_attention.listen(heard.append)
        memory = layer.cross_attention.keys_values(torch.randn(2, 10, 256))
        out = layer(torch.randn(2, 8, 256), memory, Visibility(causal=True))
        assert out.shape == (2, 8, 256)
        assert heard[0].shape == (2, 8, 8, 10)

    def test_queries_come_from_the_target_and_keys_and_values_from_the_source(self) -> None:
        layer, x, memory = decoder_layer(12, 3, 23), torch.randn(2, 5, 12), torch.randn(2, 7, 12)
        y = layer.self_residual.norm(x + layer.self_attention(x, Visibility(causal=True)))
        seen = layer.cross_attention.keys_values(memory)
        y = layer.cross_residual.norm(y + layer.cross_attention(y, memory=seen))
        y = layer.feed_forward_residual.norm(y + layer.feed_forward(y))
        torch.testing.assert_close(layer(x, seen, Visibility(causal=True)), y)

    def test_its_name_alone_hides_no_future(self) -> None:
        layer, x = decoder_layer(12, 3, 23), torch.randn(2, 5, 12)
        seen = layer.cross_attention.keys_values(torch.randn(2, 7, 12))
        changed = x.clone()
        changed[:, 4] += 1
        assert not torch.allclose(layer(x, seen, Visibility())[:, :4], layer(changed, seen, Visibility())[:, :4])
        hidden = [layer(each, seen, Visibility(causal=True))[:, :4] for each in (x, changed)]
        assert torch.equal(*hidden)


class TestMasks:
    def test_three_targets_see_the_lower_triangle(self) -> None:
        assert causal_mask(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    def test_ids_7_9_0_make_the_mask_m(self) -> None:
        lengths = lengths_from_ids(torch.tensor([[7, 9, 0]]))
        mask = combine(padding_mask(lengths, 3), causal_mask(3, 3))
        assert mask is not None
        assert mask.shape == (1, 1, 3, 3)
        # the padded query still has keys: padding is hidden as a key and not silenced as a query
        assert mask[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]

    def test_the_source_mask_hides_padded_keys_from_every_head_and_query(self) -> None:
        mask = padding_mask(lengths_from_ids(torch.tensor([[7, 9, 4], [5, 0, 0]])), 3)
        assert mask.shape == (2, 1, 1, 3)
        assert mask[:, 0, 0].int().tolist() == [[1, 1, 1], [1, 0, 0]]

    def test_causal_averages_of_2_4_6(self) -> None:
        # equal scores, so each row is the mean of the values that it may read
        q = torch.zeros(1, 1, 3, 1)
        for last, expected in ((6.0, [2.0, 3.0, 4.0]), (600.0, [2.0, 3.0, 202.0])):
            values = torch.tensor([2.0, 4.0, last]).view(1, 1, 3, 1)
            out, _ = attend_plain(q, q, values, causal_mask(3, 3)[None, None])
            torch.testing.assert_close(out.flatten(), torch.tensor(expected))

    def test_without_a_mask_every_row_would_change(self) -> None:
        q = torch.zeros(1, 1, 3, 1)
        before, after = (attend_plain(q, q, torch.tensor([2.0, 4.0, last]).view(1, 1, 3, 1))[0] for last in (6, 600))
        assert before.ne(after).all()


class TestModel:
    def test_ids_select_rows_and_are_no_quantities(self) -> None:
        tokens = TokenTable(5, 3, scaled=False)
        assert torch.equal(tokens(torch.tensor([[2, 4]]))[0], tokens.table.weight[[2, 4]])

    def test_the_two_vocabularies_have_tables_of_their_own(self, base: Transformer) -> None:
        assert base.source_embedding.vectors.table.weight.shape == (10_000, 512)
        assert base.target_embedding.vectors.table.weight.shape == (8_000, 512)

    def test_embeddings_are_multiplied_by_the_root_of_the_width_before_positions(self, small: Transformer) -> None:
        ids = torch.tensor([[3, 5, 7]])
        embedding = small.source_embedding
        expected = embedding.vectors.table.weight[ids] * math.sqrt(12) + embedding.positions.table[:3]
        torch.testing.assert_close(embedding(ids), expected)

    def test_sources_of_10_and_targets_of_8_give_8000_scores_each(self, base: Transformer) -> None:
        source = torch.ones(2, 10, dtype=torch.long, device="meta")
        target = torch.ones(2, 8, dtype=torch.long, device="meta")
        memory = base.encode(source)
        assert memory.shape == (2, 10, 512)
        hidden = base.decode(target, memory)
        assert hidden.shape == (2, 8, 512)
        assert base.output(hidden).shape == (2, 8, 8000)

    def test_dropout_stands_where_the_layout_has_it(self) -> None:
        model = build(TransformerSpec(11, 11, 12, 3, 17, 1, 1, dropout=LAYOUT.dropout))
        layer = model.decoder.layers[0]
        assert layer.self_attention.dropout == layer.cross_attention.dropout == 0.1
        shares = {name: module.p for name, module in model.named_modules() if isinstance(module, nn.Dropout)}
        assert set(shares.values()) == {0.1}
        assert len(shares) == 2 + (2 + 3) + 2  # embeddings, residuals, feed-forward networks

    def test_scores_2_1_0_are_no_probabilities_until_a_softmax(self) -> None:
        probabilities = torch.tensor([2.0, 1.0, 0.0]).softmax(-1)
        torch.testing.assert_close(probabilities, torch.tensor([0.665, 0.245, 0.090]), atol=5e-4, rtol=0)

    def test_what_it_returns_are_logits(self, small: Transformer) -> None:
        logits = small(torch.tensor([[5, 6, 7]]), torch.tensor([[2, 8]]))
        assert logits.lt(0).any()
        assert not torch.allclose(logits.sum(-1), torch.ones(1, 2))

    def test_input_and_label_are_shifted_by_one(self) -> None:
        batch = collate([([21, 22], [31, 32], 0)])
        assert batch.target_in.tolist() == [[BOS, 31, 32]]
        assert batch.target_out.tolist() == [[31, 32, EOS]]

    def test_loss_ignores_padded_labels(self, small: Transformer) -> None:
        short, long = ([5, 6], [7], 0), ([5, 6, 8], [7, 9, 10, 11], 1)
        objective = Seq2SeqObjective(small, smoothing=0.1)
        alone, together = [objective(collate([pair])) for pair in (short, long)], objective(collate([short, long]))
        torch.testing.assert_close(together[0], alone[0][0] + alone[1][0])
        assert together[1] == alone[0][1] + alone[1][1] == 2 + 5


class TestPerturbation:
    """Weights fixed, dropout off, the mask unchanged: then what is hidden cannot matter."""

    def test_later_target_tokens_move_no_earlier_output(self, small: Transformer) -> None:
        source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9, 10, 4]])
        for place in range(1, 5):
            changed = target.clone()
            changed[:, place:] = 12
            before, after = small(source, target), small(source, changed)
            assert torch.equal(before[:, :place], after[:, :place])
            assert not torch.allclose(before[:, place:], after[:, place:])

    def test_hidden_source_states_move_no_output(self, small: Transformer) -> None:
        # the padding keeps its id, hence its mask; what is changed is the state behind it
        lengths, target = torch.tensor([2]), torch.tensor([[2, 8, 9]])
        memory = small.encode(torch.tensor([[5, 6, 0, 0]]), lengths)
        changed = memory.clone()
        changed[:, 2:] = 1000
        assert torch.equal(small.decode(target, memory, lengths), small.decode(target, changed, lengths))
        assert not torch.allclose(small.decode(target, memory), small.decode(target, changed))

    def test_another_id_in_the_place_of_padding_is_another_mask(self, small: Transformer) -> None:
        target = torch.tensor([[2, 8, 9]])
        padded, longer = small(torch.tensor([[5, 6, 0, 0]]), target), small(torch.tensor([[5, 6, 9, 9]]), target)
        assert not torch.allclose(padded, longer)


class TestParameterTable:
    """Every line of the table, and its sum."""

    def test_two_embeddings(self, base: Transformer) -> None:
        assert num_parameters(base.source_embedding, base.target_embedding) == (10_000 + 8_000) * 512 == 9_216_000

    def test_each_attention(self, base: Transformer) -> None:
        attentions = [module for module in base.modules() if isinstance(module, MultiHeadAttention)]
        assert len(attentions) == 6 + 2 * 6
        assert {num_parameters(attention) for attention in attentions} == {4 * (512**2 + 512)} == {1_050_624}

    def test_each_feed_forward_network(self, base: Transformer) -> None:
        networks = [module for module in base.modules() if isinstance(module, FeedForward)]
        assert len(networks) == 12
        assert (
            {num_parameters(network) for network in networks} == {512 * 2048 + 2048 + 2048 * 512 + 512} == {2_099_712}
        )

    def test_each_norm(self, base: Transformer) -> None:
        norms = [module for module in base.modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 6 * 2 + 6 * 3
        assert {num_parameters(norm) for norm in norms} == {1024}

    def test_six_encoder_layers(self, base: Transformer) -> None:
        assert num_parameters(base.encoder) == 6 * (1_050_624 + 2_099_712 + 2 * 1024) == 18_914_304

    def test_six_decoder_layers(self, base: Transformer) -> None:
        assert num_parameters(base.decoder) == 6 * (2 * 1_050_624 + 2_099_712 + 3 * 1024) == 25_224_192

    def test_output_projection(self, base: Transformer) -> None:
        assert num_parameters(base.output) == 512 * 8000 + 8000 == 4_104_000

    def test_the_sum(self, base: Transformer) -> None:
        assert num_parameters(base) == 9_216_000 + 18_914_304 + 25_224_192 + 4_104_000 == 57_458_496

    def test_positions_are_not_counted(self, base: Transformer) -> None:
        tables: list[Tensor] = [buffer for name, buffer in base.named_buffers() if name.endswith("table")]
        assert [table.shape for table in tables] == [(5000, 512), (5000, 512)]
