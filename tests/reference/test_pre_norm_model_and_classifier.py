"""The pre-norm model and the classifier of signals, statement by statement, with numbers worked by hand.

Axes: B batch, L frames or tokens, S source, T target, D = d_model, H heads.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.inspection import watch_attention
from regard.models import (
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    SequenceClassifier,
    Sinusoidal,
    TransformerSpec,
    build,
    build_classifier,
)
from regard.nn import (
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    FrameMap,
    MultiHeadAttention,
    PreNorm,
    TokenTable,
    Visibility,
    attend_plain,
    causal_mask,
)
from regard.nn import Learned as LearnedPositions
from regard.nn import Sinusoidal as SinusoidalPositions
from regard.training import smoothed_cross_entropy
from regard.training.schedule import noam

MODEL = TransformerSpec(
    source_vocab=100,
    target_vocab=100,
    d_model=32,
    num_heads=4,
    d_ff=4 * 32,
    encoder_layers=2,
    decoder_layers=2,
    positions=Sinusoidal(),
    max_len=100,
    residual="pre",
    encoder_final_norm=True,
    decoder_final_norm=False,
    activation="gelu",
    scale_embeddings=False,
    dropout=Dropout(0.1, 0.1, 0.1, 0.1),
)
"""The encoder-decoder layout: a final norm on the encoder only, embeddings unscaled."""

CLASSIFIER = ClassifierSpec(
    num_classes=3,
    num_features=1,
    d_model=32,
    num_heads=4,
    d_ff=4 * 32,
    layers=2,
    positions=Sinusoidal(),
    max_len=64,
    readout="mean",
    residual="pre",
    final_norm=True,
    activation="gelu",
    scale_embeddings=False,
    dropout=Dropout(0.1, 0.1, 0.1, 0.1),
)
"""The classifier's layout."""


def encoder_layer(index: int = 0) -> EncoderLayer:
    return EncoderLayer(
        self_attention=MultiHeadAttention(32, 4),
        feed_forward=FeedForward(32, 128, F.gelu),
        residuals=(PreNorm(nn.LayerNorm(32)), PreNorm(nn.LayerNorm(32))),
    )


def decoder_layer() -> DecoderLayer:
    return DecoderLayer(
        self_attention=MultiHeadAttention(32, 4),
        cross_attention=MultiHeadAttention(32, 4),
        feed_forward=FeedForward(32, 128, F.gelu),
        residuals=(PreNorm(nn.LayerNorm(32)), PreNorm(nn.LayerNorm(32)), PreNorm(nn.LayerNorm(32))),
    )


class TestAttentionByHand:
    def test_two_tokens_look_67_percent_at_themselves(self) -> None:
        # queries, keys and values are the identity: scores 1/√2 = 0.707 and 0; e^0.707 : 1 = 0.67 : 0.33
        x = torch.eye(2)[None, None]
        out, weights = attend_plain(x, x, x)
        expected = torch.tensor([[0.67, 0.33], [0.33, 0.67]])
        torch.testing.assert_close(weights[0, 0], expected, atol=5e-3, rtol=0)
        assert torch.equal(out, weights)

    def test_a_softmax_does_not_overflow(self) -> None:
        x = torch.tensor([[[[300.0], [100.0]]]])
        out, weights = attend_plain(x, x, x)
        assert weights[0, 0, 0].tolist() == [1, 0]
        assert out.isfinite().all()


class TestEmbeddings:
    def test_words_are_looked_up_and_scaled(self) -> None:
        tokens, ids = TokenTable(1000, 16), torch.randint(1, 1000, (2, 5))
        assert tokens(ids).shape == (2, 5, 16)
        torch.testing.assert_close(tokens(ids), tokens.table(ids) * 4)

    def test_signals_are_mapped_and_scaled(self) -> None:
        frames, x = FrameMap(1, 16, scaled=True), torch.randn(2, 5, 1)
        assert frames(x).shape == (2, 5, 16)
        torch.testing.assert_close(frames(x), frames.map(x) * 4)

    def test_positions_of_width_four(self) -> None:
        table = SinusoidalPositions(4, 100).table
        assert table[0].tolist() == [0, 1, 0, 1]
        torch.testing.assert_close(table[1], torch.tensor([0.841, 0.540, 0.010, 1.000]), atol=5e-4, rtol=0)
        assert SinusoidalPositions(4, 100).embed(torch.zeros(2, 3, 4)).shape == (2, 3, 4)

    def test_learned_positions_are_one_vector_per_place_and_trained(self) -> None:
        positions = LearnedPositions(16, 5)
        assert [parameter.shape for parameter in positions.parameters()] == [(5, 16)]
        x = torch.randn(2, 5, 16)
        torch.testing.assert_close(positions.embed(x) - x, positions.weight.expand(2, 5, 16), atol=1e-6, rtol=0)


class TestMultiHeadAttention:
    def test_keeps_the_shape_and_gives_each_head_a_map(self) -> None:
        attention, heard = MultiHeadAttention(32, 4), []
        attention.listen(heard.append)
        assert attention(torch.randn(2, 10, 32)).shape == (2, 10, 32)
        assert heard[0].shape == (2, 4, 10, 10)
        torch.testing.assert_close(heard[0].sum(-1), torch.ones(2, 4, 10))

    def test_projects_queries_keys_and_values_in_one_product(self) -> None:
        attention = MultiHeadAttention(32, 4)
        assert attention.qkv.weight.shape == (96, 32)
        q, k, v = attention.split_heads(attention.qkv(torch.randn(2, 10, 32)), 3)
        assert q.shape == k.shape == v.shape == (2, 4, 10, 8)

    def test_gradient_reaches_that_product(self) -> None:
        attention = MultiHeadAttention(32, 4)
        attention(torch.randn(2, 10, 32)).sum().backward()
        assert attention.qkv.weight.grad is not None

    def test_a_hidden_key_has_no_weight_in_any_query(self) -> None:
        attention, heard = MultiHeadAttention(32, 4), []
        attention.listen(heard.append)
        allowed = torch.ones(2, 1, 1, 10, dtype=torch.bool)
        allowed[..., 0] = False
        attention(torch.randn(2, 10, 32), Visibility(allowed=allowed))
        assert heard[0][..., 0].eq(0).all()
        torch.testing.assert_close(heard[0].sum(-1), torch.ones(2, 4, 10))

    def test_cross_attention_reads_another_number_of_tokens(self) -> None:
        attention, heard = MultiHeadAttention(32, 4), []
        attention.listen(heard.append)
        out = attention(torch.randn(2, 5, 32), memory=attention.keys_values(torch.randn(2, 10, 32)))
        assert out.shape == (2, 5, 32)
        assert heard[0].shape == (2, 4, 5, 10)


class TestLayers:
    def test_layer_norm_of_1_2_3_4(self) -> None:
        # mean 2.5, variance 1.25
        out = nn.LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        torch.testing.assert_close(out, torch.tensor([-1.342, -0.447, 0.447, 1.342]), atol=5e-4, rtol=0)

    def test_feed_forward_widens_four_times_with_gelu(self) -> None:
        layer, x = FeedForward(32, 128, F.gelu), torch.randn(2, 10, 32)
        assert layer(x).shape == (2, 10, 32)
        inner = F.gelu(x @ layer.inner.weight.T + layer.inner.bias)
        torch.testing.assert_close(layer(x), inner @ layer.outer.weight.T + layer.outer.bias)

    def test_an_encoder_layer_normalises_before_each_sublayer(self) -> None:
        layer, x = encoder_layer(), torch.randn(2, 10, 32)
        y = x + layer.self_attention(layer.self_residual.norm(x))
        y = y + layer.feed_forward(layer.feed_forward_residual.norm(y))
        torch.testing.assert_close(layer(x), y)

    def test_an_encoder_ends_with_a_norm_and_has_a_map_per_layer(self) -> None:
        norm = nn.LayerNorm(32)
        encoder, x = Encoder(encoder_layer, 2, final_norm=norm), torch.randn(2, 10, 32)
        with watch_attention(encoder) as maps:
            out = encoder(x)
        assert [maps.stacked(name).shape for name in maps] == [(2, 4, 10, 10)] * 2
        torch.testing.assert_close(out, norm(encoder.layers[1](encoder.layers[0](x))))
        torch.testing.assert_close(out.mean(-1), torch.zeros(2, 10), atol=1e-6, rtol=0)

    def test_four_tokens_see_the_lower_triangle(self) -> None:
        expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
        assert causal_mask(4, 4).int().tolist() == expected

    def test_a_decoder_layer_sees_its_past_then_the_source_then_works_alone(self) -> None:
        layer, x, memory = decoder_layer(), torch.randn(2, 5, 32), torch.randn(2, 10, 32)
        seen = layer.cross_attention.keys_values(memory)
        y = x + layer.self_attention(layer.self_residual.norm(x), Visibility(allowed=causal_mask(5, 5)))
        y = y + layer.cross_attention(layer.cross_residual.norm(y), memory=seen)
        y = y + layer.feed_forward(layer.feed_forward_residual.norm(y))
        out = layer(x, seen, Visibility(causal=True))
        assert out.shape == (2, 5, 32)
        torch.testing.assert_close(out, y)


class TestModel:
    def test_8_source_and_5_target_tokens_give_scores_of_100_words(self) -> None:
        model = build(MODEL)
        logits = model(torch.randint(1, 100, (2, 8)), torch.randint(1, 100, (2, 5)))
        assert logits.shape == (2, 5, 100)

    def test_the_final_norm_stands_on_the_encoder_alone(self) -> None:
        model = build(MODEL)
        assert isinstance(model.encoder.final_norm, nn.LayerNorm)
        assert isinstance(model.decoder.final_norm, nn.Identity)

    def test_embeddings_are_not_scaled(self) -> None:
        embedding, ids = build(MODEL).eval().source_embedding, torch.tensor([[3, 5]])
        expected = embedding.vectors.table.weight[ids] + embedding.positions.table[:2]
        torch.testing.assert_close(embedding(ids), expected)

    def test_the_decoder_cannot_see_ahead(self) -> None:
        model, source, target = build(MODEL).eval(), torch.randint(1, 100, (2, 8)), torch.randint(1, 100, (2, 5))
        changed = target.clone()
        changed[:, 3:] = 1
        before, after = model(source, target), model(source, changed)
        assert torch.equal(before[:, :3], after[:, :3])


class TestTraining:
    def test_the_rate_rises_in_a_line_over_the_warm_up(self) -> None:
        rates = [noam(step, d_model=32, warmup=50) for step in range(1, 6)]
        assert rates == pytest.approx([step * 32**-0.5 * 50**-1.5 for step in range(1, 6)])
        assert rates == sorted(rates)

    def test_and_falls_with_the_root_of_the_step_after_it(self) -> None:
        assert noam(50, d_model=32, warmup=50) == pytest.approx(32**-0.5 * 50**-0.5)
        assert noam(200, d_model=32, warmup=50) == pytest.approx(noam(50, d_model=32, warmup=50) / 2)

    def test_the_smoothed_loss_is_a_share_of_the_label_and_a_share_of_all(self) -> None:
        logits, labels = torch.randn(7, 5), torch.tensor([1, 4, 2, 3, 1, 2, 4])
        log_p = logits.log_softmax(-1)
        label, uniform = -log_p[torch.arange(7), labels].mean(), -log_p.mean()
        expected = 0.9 * label + 0.1 * uniform
        torch.testing.assert_close(smoothed_cross_entropy(logits, labels, 0.1) / 7, expected)
        torch.testing.assert_close(F.cross_entropy(logits, labels, label_smoothing=0.1), expected)


READOUTS = ["mean", "cls", "last"]
POSITIONS = [Sinusoidal(), Learned(), NoPositions()]
SIGNALS = torch.randn(7, 64, 1, generator=torch.Generator().manual_seed(0))


def classifier(**changes: Any) -> SequenceClassifier:
    torch.manual_seed(0)
    return build_classifier(replace(CLASSIFIER, **changes)).eval()


class TestClassifier:
    @pytest.mark.parametrize("readout", READOUTS)
    @pytest.mark.parametrize("positions", POSITIONS)
    @pytest.mark.parametrize("residual", ["pre", "none"])
    def test_64_samples_give_scores_of_three_classes(self, readout: str, positions: Any, residual: str) -> None:
        model = classifier(readout=readout, positions=positions, residual=residual)
        assert model(SIGNALS).shape == (7, 3)

    def test_the_number_of_parameters(self) -> None:
        attention, feed_forward = 4 * (32 * 32 + 32), 32 * 128 + 128 + 128 * 32 + 32
        layer = attention + feed_forward + 2 * 64
        total = sum(parameter.numel() for parameter in classifier().parameters())
        assert total == (32 + 32) + 2 * layer + 64 + (32 * 3 + 3) == 25_635

    def test_is_embedding_positions_encoder_readout_and_head(self) -> None:
        model = classifier()
        x = SIGNALS @ model.embedding.vectors.map.weight.T + model.embedding.vectors.map.bias
        x = x + model.embedding.positions.table[:64]
        for layer in model.encoder.layers:
            x = x + layer.self_attention(layer.self_residual.norm(x))
            x = x + layer.feed_forward(layer.feed_forward_residual.norm(x))
        x = model.encoder.final_norm(x)
        expected = x.mean(dim=1) @ model.output.weight.T + model.output.bias
        # a few hundred roundings of numbers of about one
        torch.testing.assert_close(model(SIGNALS), expected, atol=1e-5, rtol=0)

    def test_cls_reads_the_first_place_and_last_the_last(self) -> None:
        for readout, place in (("cls", 0), ("last", -1)):
            model = classifier(readout=readout)
            encoded = model.encoder(model.embedding(SIGNALS))
            torch.testing.assert_close(model(SIGNALS), model.output(encoded[:, place]))

    def test_without_residual_a_layer_is_its_sublayers_in_a_row(self) -> None:
        model = classifier(residual="none")
        x = model.embedding(SIGNALS)
        for layer in model.encoder.layers:
            x = layer.self_attention(layer.self_residual.norm(x))
            x = layer.feed_forward(layer.feed_forward_residual.norm(x))
        expected = model.output(model.encoder.final_norm(x).mean(dim=1))
        torch.testing.assert_close(model(SIGNALS), expected)

    def test_without_positions_and_with_the_mean_the_order_of_samples_is_lost(self) -> None:
        order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
        bag, sequence = classifier(positions=NoPositions()), classifier()
        torch.testing.assert_close(bag(SIGNALS[:, order]), bag(SIGNALS), atol=1e-5, rtol=0)
        assert not torch.allclose(sequence(SIGNALS[:, order]), sequence(SIGNALS), atol=1e-3)

    def test_each_layer_has_a_map_of_64_by_64(self) -> None:
        model = classifier()
        with watch_attention(model) as maps:
            model(SIGNALS)
        assert [maps.stacked(name).shape for name in maps] == [(7, 4, 64, 64)] * 2


def three_tones(per_class: int = 300, length: int = 64, noise: float = 0.2) -> tuple[Tensor, Tensor]:
    """Return signals [3N, L, 1] of one, two or three waves each, with a random phase and noise, and which they are."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.arange(3).repeat_interleave(per_class)
    time = torch.arange(length) / length * 2 * math.pi
    phase = torch.rand(len(classes), 1, generator=generator) * 2 * math.pi
    signals = torch.sin((classes[:, None] + 1) * time + phase)
    signals += noise * torch.randn(signals.shape, generator=generator)
    order = torch.randperm(len(classes), generator=generator)
    return signals[order, :, None], classes[order]


class TestThreeTones:
    def test_the_signals(self) -> None:
        signals, classes = three_tones()
        assert signals.shape == (900, 64, 1)
        assert classes.bincount().tolist() == [300, 300, 300]
        power = torch.fft.rfft(signals[:, :, 0]).abs()
        assert (power.argmax(dim=1) == classes + 1).all()
        # a sine has a variance of 1/2, and the noise adds 0.04
        assert abs(signals.var().item() - 0.54) < 0.01

    @pytest.mark.usefixtures("unchecked")
    def test_are_learned_to_99_percent_within_300_steps(self) -> None:
        assert max(accuracies(stop_at=0.99)) >= 0.99

    @pytest.mark.slow
    @pytest.mark.usefixtures("unchecked")
    def test_are_known_after_300_steps(self) -> None:
        assert accuracies()[-1] >= 0.99


def accuracies(stop_at: float = math.inf) -> list[float]:
    """Train as laid down: 80/20, batches of 64, Adam, warm-up of 100, smoothing 0.1; test every 50 of 300 steps."""
    torch.manual_seed(0)
    signals, classes = three_tones()
    train, test = slice(None, 720), slice(720, None)
    model = build_classifier(CLASSIFIER)
    optimizer = torch.optim.Adam(model.parameters())
    history: list[float] = []
    for step in range(1, 301):
        for group in optimizer.param_groups:
            group["lr"] = noam(step, d_model=32, warmup=100)
        rows = torch.randint(0, 720, (64,))
        loss = F.cross_entropy(model.train()(signals[train][rows]), classes[train][rows], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            with torch.no_grad():
                right = model.eval()(signals[test]).argmax(dim=1) == classes[test]
            history.append(right.double().mean().item())
            if history[-1] >= stop_at:
                break
    return history
