"""Specs: what they refuse, in which words, and that JSON gives them back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from regard.errors import RecipeError
from regard.models import (
    PRESETS,
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    TransformerSpec,
    classifier_spec_from_dict,
    preset,
    spec_from_dict,
    spec_to_dict,
)

SPEC = TransformerSpec(source_vocab=11, target_vocab=13)

POSITIONS = [
    Sinusoidal(),
    Sinusoidal(layout="half"),
    Learned(),
    Rotary(),
    Rotary(base=500.0, layout="half"),
    RelativeBias(),
    RelativeBias(num_buckets=8, max_distance=20),
    NoPositions(),
]


class TestRoundTrip:
    @pytest.mark.parametrize("name", PRESETS)
    def test_presets(self, name: str) -> None:
        spec = preset(name, source_vocab=11, target_vocab=13)
        assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec

    @pytest.mark.parametrize("positions", POSITIONS)
    def test_positions(self, positions: Any) -> None:
        spec = replace(SPEC, positions=positions)
        assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec
        classifier = ClassifierSpec(3, positions=positions)
        assert classifier_spec_from_dict(json.loads(json.dumps(spec_to_dict(classifier)))) == classifier

    def test_all_options_away_from_their_defaults(self) -> None:
        spec = TransformerSpec(
            *(11, 11, 24, 2, 29, 3, 5, Rotary(), 37, "rms", 1e-6, "pre", True, True, "silu", True, False, True, False),
            *("all", False, False, Dropout(0.0, 0.1, 0.2, 0.3)),
        )
        changed = [name for name, value in vars(spec).items() if value != vars(SPEC)[name]]
        assert set(vars(spec)) - set(changed) == {"source_vocab"}
        assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec

    def test_left_out_keys_have_their_defaults(self) -> None:
        assert spec_from_dict({"source_vocab": 11, "target_vocab": 13}) == SPEC

    def test_whole_numbers_may_stand_for_fractions(self) -> None:
        data = {"source_vocab": 11, "target_vocab": 13, "dropout": {"embedding": 0}}
        assert spec_from_dict(data).dropout.embedding == 0.0

    def test_specs_can_be_compared_and_hashed(self) -> None:
        assert len({SPEC, replace(SPEC), replace(SPEC, d_ff=7)}) == 2


class TestPresets:
    def test_base_and_big_are_the_papers(self) -> None:
        base, big = (preset(name, source_vocab=11, target_vocab=13) for name in ("base", "big"))
        assert (base.d_model, base.num_heads, base.d_ff, base.encoder_layers) == (512, 8, 2048, 6)
        assert (big.d_model, big.num_heads, big.d_ff, big.decoder_layers) == (1024, 16, 4096, 6)
        assert (base.dropout.residual, big.dropout.residual) == (0.1, 0.3)

    def test_an_unknown_one_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(RecipeError, match=r"model.preset = 'bse' is unknown; did you mean 'base'\?"):
            preset("bse", source_vocab=11, target_vocab=13)


class TestRefusedValues:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"d_model": 0}, "model.d_model must be between 1 and 1,048,576, but is 0"),
            ({"d_ff": -1}, "model.d_ff must be between 1 and"),
            ({"max_len": 1 << 21}, "model.max_len must be between 1 and 1,048,576, but is 2097152"),
            ({"source_vocab": 0}, "model.source_vocab must be"),
            ({"target_vocab": 0}, "model.target_vocab must be"),
            ({"encoder_layers": 0}, "model.encoder_layers must be between 1 and 1,000, but is 0"),
            ({"decoder_layers": 1001}, "model.decoder_layers must be between 1 and 1,000, but is 1001"),
            ({"num_heads": 0}, "model.num_heads must be between 1"),
            ({"num_heads": 7}, "model.num_heads must divide d_model = 512, but is 7"),
            ({"norm_eps": 0.0}, "model.norm_eps must be between 0 and 1, but is 0.0"),
            ({"norm_eps": float("nan")}, "model.norm_eps must be between 0 and 1, but is nan"),
            ({"d_model": 21, "num_heads": 7, "positions": Rotary()}, "model.positions = rotary needs an even d_model"),
            ({"tie": "all"}, "model.tie = all needs one vocabulary, but source has 11 entries and target 13"),
        ],
    )
    def test_of_a_model(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            replace(SPEC, **changes)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"num_classes": 0}, "model.num_classes must be between 1 and"),
            ({"num_features": 0}, "model.num_features must be between 1 and"),
            ({"layers": 0}, "model.layers must be between 1 and 1,000, but is 0"),
            ({"num_heads": 5}, "model.num_heads must divide d_model = 32, but is 5"),
        ],
    )
    def test_of_a_classifier(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            replace(ClassifierSpec(3), **changes)

    @pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, float("nan")])
    @pytest.mark.parametrize("place", ["embedding", "attention", "feed_forward", "residual"])
    def test_of_dropout(self, place: str, share: float) -> None:
        with pytest.raises(RecipeError, match=f"model.dropout.{place} must be at least 0 and below 1, but is {share}"):
            Dropout(**{place: share})

    @pytest.mark.parametrize("base", [0.0, -1.0, float("inf"), float("nan")])
    def test_of_rotary(self, base: float) -> None:
        with pytest.raises(RecipeError, match=f"model.positions.base must be above 0, but is {base}"):
            Rotary(base=base)

    @pytest.mark.parametrize(
        ("num_buckets", "max_distance", "words"),
        [
            (3, 128, "model.positions.num_buckets must be between 4 and 1,048,576, but is 3"),
            (
                32,
                16,
                "model.positions.max_distance must be above num_buckets / 2 = 16 and at most 1,048,576, but is 16",
            ),
        ],
    )
    def test_of_relative_bias(self, num_buckets: int, max_distance: int, words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            RelativeBias(num_buckets, max_distance)


class TestRefusedData:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ({"d_modle": 64}, r"model.d_modle is unknown; did you mean 'd_model'\?"),
            ({"zzz": 64}, "model.zzz is unknown; valid: activation, bias, d_ff"),
            ({"d_model": "512"}, "model.d_model must be of type int, but is '512'"),
            ({"d_model": 512.0}, "model.d_model must be of type int, but is 512.0"),
            ({"num_heads": True}, "model.num_heads must be of type int, but is True"),
            ({"gated": 1}, "model.gated must be of type bool, but is 1"),
            ({"norm_eps": "small"}, "model.norm_eps must be of type float, but is 'small'"),
            ({"norm_eps": True}, "model.norm_eps must be of type float, but is True"),
            ({"norm": "layr"}, r"model.norm = 'layr' is unknown; did you mean 'layer'\?"),
            ({"activation": "Relu"}, r"model.activation = 'Relu' is unknown; did you mean 'relu'\?"),
            ({"tie": ["all"]}, r"model.tie = \['all'\] is unknown"),
            ({"residual": "none"}, "model.residual = 'none' is unknown"),
            ({"dropout": 0.1}, "model.dropout must be a table, but is 0.1"),
            ({"dropout": {"residal": 0.1}}, r"model.dropout.residal is unknown; did you mean 'residual'\?"),
            ({"dropout": {"residual": 2}}, "model.dropout.residual must be at least 0 and below 1"),
            ({"positions": {"kind": "rotry"}}, r"model.positions = 'rotry' is unknown; did you mean 'rotary'\?"),
            ({"positions": {"kind": "rotary", "bse": 3}}, r"model.positions.bse is unknown; did you mean 'base'\?"),
            ({"positions": {"kind": "learned", "base": 3.0}}, "model.positions.base is unknown"),
            ({"positions": "rotary"}, "model.positions must be a table, but is 'rotary'"),
            ({"positions": {}}, "model.positions.kind is missing; valid: learned, none, relative-bias"),
        ],
    )
    def test_the_key_is_named(self, data: dict[str, Any], words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            spec_from_dict({"source_vocab": 11, "target_vocab": 13, **data})

    def test_a_missing_key(self) -> None:
        with pytest.raises(RecipeError, match=r"model\.target_vocab is missing"):
            spec_from_dict({"source_vocab": 11})

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize("data", [None, [], "model", 3])
    def test_not_a_table(self, data: Any) -> None:
        with pytest.raises(RecipeError, match="model must be a table, but is"):
            spec_from_dict(data)
        with pytest.raises(RecipeError, match="model must be a table, but is"):
            classifier_spec_from_dict(data)
