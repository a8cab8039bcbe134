"""Building: how many parameters, which of them are one, and that no option is without effect."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import InputError, RecipeError, ShapeError
from regard.models import (
    PRESETS,
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    SequenceClassifier,
    Sinusoidal,
    Transformer,
    TransformerSpec,
    build,
    build_classifier,
    preset,
    tie,
)
from regard.nn import AttentionReadout, FirstReadout, LastReadout, MeanReadout
from regard.protocols import PAD

SPEC = TransformerSpec(
    source_vocab=13,
    target_vocab=13,
    d_model=12,
    num_heads=3,
    d_ff=17,
    encoder_layers=2,
    decoder_layers=3,
    max_len=19,
    dropout=Dropout(0.0, 0.0, 0.0, 0.0),
)
CLASSIFIER = ClassifierSpec(5, num_features=2, d_model=12, num_heads=3, d_ff=17, max_len=19, dropout=SPEC.dropout)

SOURCE = torch.tensor([[7, 5, 9, 11, 3], [4, 12, 3, 0, 0]])
TARGET = torch.tensor([[2, 8, 6, 10], [2, 5, 0, 0]])
FRAMES = torch.randn(2, 7, 2, generator=torch.Generator().manual_seed(0))


def num_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


class TestSize:
    def test_the_base_model_of_the_paper(self) -> None:
        with torch.device("meta"):
            model = build("base", source_vocab=10_000, target_vocab=8_000)
        assert num_parameters(model) == 57_458_496

    @pytest.mark.parametrize("name", PRESETS)
    def test_presets(self, name: str) -> None:
        spec = preset(name, source_vocab=1009, target_vocab=2003)
        with torch.device("meta"):
            model = build(spec)
        D, F = spec.d_model, spec.d_ff
        attention, feed_forward, norm = 4 * (D * D + D), D * F + F + F * D + D, 2 * D
        assert num_parameters(model) == (
            (1009 + 2003) * D
            + spec.encoder_layers * (attention + feed_forward + 2 * norm)
            + spec.decoder_layers * (2 * attention + feed_forward + 3 * norm)
            + D * 2003
            + 2003
        )

    def test_a_preset_by_name_is_its_spec(self) -> None:
        assert build("tiny", source_vocab=7).spec == preset("tiny", source_vocab=7, target_vocab=7)

    def test_the_classifier(self) -> None:
        D, F = 12, 17
        layer = 4 * (D * D + D) + (D * F + F + F * D + D) + 2 * 2 * D
        assert num_parameters(build_classifier(CLASSIFIER)) == (2 * D + D) + 2 * layer + 2 * D + (D * 5 + 5)


class TestRefusals:
    def test_a_preset_without_vocabulary(self) -> None:
        with pytest.raises(InputError, match=r"build\('base'\) needs `source_vocab`"):
            build("base")

    def test_a_spec_with_vocabulary(self) -> None:
        with pytest.raises(InputError, match="the vocabulary sizes are part of the spec"):
            build(SPEC, source_vocab=7)

    def test_an_unknown_preset(self) -> None:
        with pytest.raises(RecipeError, match="did you mean 'small'"):
            build("smal", source_vocab=7)


def tables(model: Transformer) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    return model.source_embedding.vectors.table.weight, model.target_embedding.vectors.table.weight, model.output.weight


class TestTies:
    @pytest.mark.parametrize(("word", "same"), [("none", 0), ("target", 1), ("all", 2)])
    def test_are_one_parameter_and_counted_once(self, word: str, same: int) -> None:
        model = build(replace(SPEC, tie=word))
        source, target, output = tables(model)
        assert (target is output) == (word != "none")
        assert (source is target) == (word == "all")
        assert num_parameters(build(SPEC)) - num_parameters(model) == same * 13 * 12

    @pytest.mark.parametrize("word", ["target", "all"])
    def test_are_made_again_after_weights_were_replaced(self, word: str) -> None:
        model, other = build(replace(SPEC, tie=word)), build(replace(SPEC, tie=word))
        model.load_state_dict({name: value.clone() for name, value in other.state_dict().items()}, assign=True)
        assert tables(model)[1] is not tables(model)[2]  # what torch does
        tie(model)
        assert tables(model)[1] is tables(model)[2]
        assert torch.equal(model.eval()(SOURCE, TARGET), other.eval()(SOURCE, TARGET))

    @pytest.mark.parametrize(
        "change", [copy.deepcopy, nn.Module.half, nn.Module.double], ids=["copy", "half", "double"]
    )
    def test_stay_one_parameter(self, change: Callable[[Transformer], Transformer]) -> None:
        source, target, output = tables(change(build(replace(SPEC, tie="all"))))
        assert source is target is output

    def test_nothing_else_is_shared(self) -> None:
        for positions in (Sinusoidal(), Learned(), Rotary(), NoPositions()):
            model = build(replace(SPEC, positions=positions))
            storages = [parameter.data_ptr() for _, parameter in model.named_parameters(remove_duplicate=False)]
            assert len(set(storages)) == len(storages)

    def test_the_layers_of_a_side_share_one_relative_bias(self) -> None:
        model = build(replace(SPEC, positions=RelativeBias(8, 20)))
        biases = [parameter for name, parameter in model.named_parameters() if "positions" in name]
        assert [bias.shape for bias in biases] == [(8, 3), (8, 3)]
        assert len({layer.self_attention.positions for layer in model.decoder.layers}) == 1


class TestSavedWeights:
    @pytest.mark.parametrize("positions", [Sinusoidal(), Rotary(), RelativeBias(8, 20), NoPositions()])
    def test_fit_a_model_of_another_length(self, positions: Any) -> None:
        shorter, longer = (build(replace(SPEC, positions=positions, max_len=max_len)).eval() for max_len in (19, 23))
        for one, other in ((shorter, longer), (longer, shorter)):
            nn.init.normal_(one.output.weight)
            other.load_state_dict(one.state_dict())
            assert torch.equal(one(SOURCE, TARGET), other(SOURCE, TARGET))


class TestInitialWeights:
    def test_are_the_seeds(self) -> None:
        models = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            models.append(build(SPEC).state_dict())
        assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
        assert not torch.equal(models[0]["output.weight"], models[2]["output.weight"])

    def test_layers_start_unequal(self) -> None:
        model = build(SPEC)
        for stack in (model.encoder, model.decoder):
            for one, other in combinations(stack.layers, 2):
                assert not torch.equal(one.self_attention.qkv.weight, other.self_attention.qkv.weight)

    @pytest.mark.parametrize("word", ["none", "all"])
    def test_padding_starts_at_zero_and_biases_too(self, word: str) -> None:
        model = build(replace(SPEC, tie=word))
        assert model.source_embedding.vectors.table.weight[PAD].eq(0).all()
        assert model.target_embedding.vectors.table.weight[PAD].eq(0).all()
        biases = [module.bias for module in model.modules() if isinstance(module, nn.Linear)]
        assert all(bias.eq(0).all() for bias in biases)

    @pytest.mark.parametrize(
        ("scaled", "word", "deviation"),
        [(True, "none", 128**-0.5), (True, "all", 128**-0.5), (False, "none", 1.0), (False, "all", 128**-0.5)],
    )
    def test_vectors_enter_the_stack_as_large_as_positions(self, scaled: bool, word: str, deviation: float) -> None:
        spec = replace(SPEC, source_vocab=1009, target_vocab=1009, d_model=128, num_heads=4)
        model = build(replace(spec, scale_embeddings=scaled, tie=word))
        for table in tables(model)[:2]:
            assert abs(table[1:].std().item() / deviation - 1) < 0.02  # 7 standard deviations of 129,024 draws


class TestPositionsReachTheRightPlace:
    def test_added_ones_stand_at_the_embeddings(self) -> None:
        for positions in (Sinusoidal(), Learned()):
            model = build(replace(SPEC, positions=positions))
            assert model.source_embedding.positions is not model.target_embedding.positions
            for one, other in zip(
                model.source_embedding.positions.buffers(), model.target_embedding.positions.buffers(), strict=True
            ):
                assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()
            assert type(model.source_embedding.positions).__name__ == type(positions).__name__
            assert model.encoder.layers[0].self_attention.positions.bias(3, 3) is None

    def test_others_stand_in_self_attention_and_never_in_cross_attention(self) -> None:
        for positions in (Rotary(), RelativeBias(8, 20)):
            model = build(replace(SPEC, positions=positions))
            kind = type(positions).__name__
            for layer in [*model.encoder.layers, *model.decoder.layers]:
                assert type(layer.self_attention.positions).__name__ == kind
            for layer in model.decoder.layers:
                assert type(layer.cross_attention.positions).__name__ == "Positions"

    def test_only_the_encoder_tells_before_from_after(self) -> None:
        model = build(replace(SPEC, positions=RelativeBias(8, 20)))
        assert model.encoder.layers[0].self_attention.positions.bidirectional
        assert not model.decoder.layers[0].self_attention.positions.bidirectional


OTHER: dict[str, Any] = {
    "source_vocab": 17,
    "target_vocab": 17,
    "d_model": 18,
    "num_heads": 2,
    "d_ff": 11,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "positions": Learned(),
    "max_len": 23,
    "norm": "rms",
    "norm_eps": 0.1,
    "residual": "pre",
    "encoder_final_norm": True,
    "decoder_final_norm": True,
    "activation": "gelu",
    "gated": True,
    "scale_embeddings": False,
    "embedding_norm": True,
    "scale_attention": False,
    "tie": "target",
    "bias": False,
    "output_bias": False,
    "dropout": Dropout(0.3),
}
CLASSIFIER_OTHER: dict[str, Any] = {
    "num_classes": 7,
    "num_features": 3,
    "layers": 1,
    "readout": "last",
    "final_norm": False,
    "residual": "none",
    "convolutions": 2,
    "kernel": 3,
    "window": 3,
    "stride": 2,
    "scale_embeddings": True,
    "activation": "silu",
    **{name: OTHER[name] for name in ("d_model", "num_heads", "d_ff", "positions", "max_len", "norm", "norm_eps")},
    **{name: OTHER[name] for name in ("gated", "embedding_norm", "scale_attention", "bias", "dropout")},
}
VARIANTS = [
    *OTHER.items(),
    *[("positions", each) for each in (Sinusoidal("half"), Rotary(), RelativeBias(8, 20), NoPositions())],
    *[("activation", word) for word in ("gelu-tanh", "silu")],
    *[("dropout", Dropout(*([0.0] * place + [0.3] + [0.0] * (3 - place)))) for place in range(4)],
    ("tie", "all"),
]
CLASSIFIER_VARIANTS = [
    *CLASSIFIER_OTHER.items(),
    *[("readout", word) for word in ("cls", "attention")],
    *[("positions", each) for each in (Sinusoidal("half"), Rotary(), RelativeBias(8, 20), NoPositions())],
    ("residual", "post"),
]


def differ(one: nn.Module, other: nn.Module, *inputs: torch.Tensor) -> bool:
    """Return whether the models have other parameters or, with the same ones, other outputs in training."""
    shapes = [{name: parameter.shape for name, parameter in model.named_parameters()} for model in (one, other)]
    if shapes[0] != shapes[1]:
        return True
    other.load_state_dict(one.state_dict())
    outputs = []
    for model in (one, other):
        torch.manual_seed(0)
        outputs.append(model.train()(*inputs))
    return not torch.allclose(*outputs, atol=1e-6)


class TestEachOptionChangesSomething:
    def test_every_option_is_tried(self) -> None:
        assert {item.name for item in fields(TransformerSpec)} == OTHER.keys()
        assert {item.name for item in fields(ClassifierSpec)} == CLASSIFIER_OTHER.keys()

    @pytest.mark.parametrize(("name", "value"), VARIANTS)
    def test_of_a_model(self, name: str, value: Any) -> None:
        models = build(SPEC), build(replace(SPEC, **{name: value}))
        if name == "max_len":
            longer = torch.ones(2, 23, dtype=torch.long)
            models[1](longer, TARGET)
            with pytest.raises(ShapeError, match="max_len = 19"):
                models[0](longer, TARGET)
        else:
            assert differ(*models, SOURCE, TARGET)

    @pytest.mark.parametrize(("name", "value"), CLASSIFIER_VARIANTS)
    def test_of_a_classifier(self, name: str, value: Any) -> None:
        base = replace(CLASSIFIER, convolutions=1) if name == "kernel" else CLASSIFIER
        models = build_classifier(base), build_classifier(replace(base, **{name: value}))
        if name == "max_len":
            longer = torch.zeros(2, 23, 2)
            models[1](longer)
            with pytest.raises(ShapeError, match="max_len = 19"):
                models[0](longer)
        else:
            assert differ(*models, FRAMES)

    def test_an_equal_spec_changes_nothing(self) -> None:
        assert not differ(build(SPEC), build(SPEC), SOURCE, TARGET)
        assert not differ(build_classifier(CLASSIFIER), build_classifier(CLASSIFIER), FRAMES)


class TestReadouts:
    @pytest.mark.parametrize(
        ("word", "kind"),
        [("mean", MeanReadout), ("cls", FirstReadout), ("last", LastReadout), ("attention", AttentionReadout)],
    )
    def test_by_their_words(self, word: str, kind: type[nn.Module]) -> None:
        model: SequenceClassifier = build_classifier(replace(CLASSIFIER, readout=word))
        assert isinstance(model.readout, kind)
        assert model(torch.randn(2, 19, 2)).shape == (2, 5)  # the longest sequence fits, token in front or not
