"""The bound step gives what the step through the modules gives, and steps aside where it would not.

Float64, so that equal means equal to 1e-12: a few roundings of numbers of about one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from torch import Tensor, nn

from regard.models import (
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Transformer,
    ablate,
    ablation_names,
    bind,
    build,
    preset,
)
from regard.nn import RelativeBias as RelativePositions
from regard.nn.attention import SHORT
from unit.models.steps import close, model_of, sources, walk


class TestIsTheModelsStep:
    @pytest.mark.parametrize("positions", [Sinusoidal(), Learned(), Rotary(), RelativeBias(8, 20), NoPositions()])
    @pytest.mark.parametrize("lengths", [(7,), (5, 5), (7, 3, 1), (SHORT + 3, 2), (3, 0, 1), (SHORT + 3, 0, 1)])
    def test_with_every_position_encoding(self, positions: Any, lengths: tuple[int, ...]) -> None:
        model = model_of(positions=positions)
        decoder = bind(model)
        assert decoder is not model
        close(decoder, model, *sources(*lengths))

    @pytest.mark.parametrize(
        "changes",
        [
            {"residual": "pre", "decoder_final_norm": True},
            {"norm": "rms"},
            {"norm": "rms", "residual": "pre", "gated": True},
            {"bias": False},
            {"activation": "silu", "output_bias": False},
            {"scale_attention": False},
            {"scale_embeddings": False, "embedding_norm": True},
            {"tie": "target"},
        ],
        ids=str,
    )
    def test_with_every_kind_of_part(self, changes: dict[str, Any]) -> None:
        model = model_of(**changes)
        decoder = bind(model)
        assert decoder is not model
        close(decoder, model, *sources(5, 7, 2))

    def test_of_a_model_that_is_laid_out_for_it(self) -> None:
        close(bind(model_of().lay_out_for_steps()), model_of(), *sources(5, 7, 2))

    def test_of_whatever_an_ablation_leaves(self) -> None:
        model = model_of(positions=Rotary())
        aside = []
        for name in ablation_names(model):
            ablated = ablate(model, name).model.eval()
            decoder = bind(ablated)
            if decoder is ablated:
                aside.append(name)
            close(decoder, ablated, *sources(5, 3))
        silenced = [f"decoder.layer:{layer}.{part}" for layer in (1, 2) for part in ("cross", "feed-forward")]
        assert aside == ["cross-attention", *silenced]

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_in_half_precision(self, dtype: torch.dtype) -> None:
        model = model_of().to(dtype)
        source, lengths = sources(5, 3)
        found = walk(bind(model), source, lengths)
        exact = walk(model.double(), source, lengths)
        for one, other in zip(found, exact, strict=True):
            assert one.dtype == dtype
            # Four roundings of a logit between 1 and 2; the model's own step is as far from what the weights give.
            torch.testing.assert_close(one.double(), other, rtol=0, atol=4 * torch.finfo(dtype).eps)


class Doubled(nn.Linear):
    """A map that is not what its weights say."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def listen(model: Transformer) -> None:
    model.decoder.layers[1].cross_attention.listen(lambda weights: None)


def hook(model: Transformer) -> None:
    model.decoder.layers[0].self_residual.norm.register_forward_hook(lambda *_: None)


def pre_hook(model: Transformer) -> None:
    model.decoder.layers[0].self_attention.out.register_forward_pre_hook(lambda *_: None)


def train_a_part(model: Transformer) -> None:
    model.decoder.layers[0].cross_residual.train()


def exchange(model: Transformer) -> None:
    model.decoder.layers[1].self_attention.out = Doubled(12, 12).double().eval()


def patch(model: Transformer) -> None:
    layer = model.decoder.layers[0]
    layer.forward = layer.forward


def patch_a_step(model: Transformer) -> None:
    model.step = model.step


def watch_an_inner_step(model: Transformer) -> None:
    attention = model.decoder.layers[0].self_attention
    attention.merge_heads = attention.merge_heads


def place_the_source(model: Transformer) -> None:
    model.decoder.layers[1].cross_attention.positions = RelativePositions(3).double().eval()


def normalise_a_weight(model: Transformer) -> None:
    nn.utils.parametrizations.weight_norm(model.decoder.layers[1].feed_forward.outer)
    model.eval()


def prune(model: Transformer) -> None:
    nn.utils.prune.l1_unstructured(model.decoder.layers[0].feed_forward.inner, "weight", amount=3)


class TestStepsAside:
    @pytest.mark.parametrize(
        "change",
        [
            *(listen, hook, pre_hook, train_a_part, exchange, patch, patch_a_step),
            *(watch_an_inner_step, place_the_source, normalise_a_weight, prune),
        ],
    )
    def test_where_a_part_does_more(self, change: Callable[[Transformer], None]) -> None:
        model = model_of()
        change(model)
        assert bind(model) is model

    def test_while_every_module_is_watched(self) -> None:
        model = model_of()
        handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
        try:
            assert bind(model) is model
        finally:
            handle.remove()
        assert bind(model) is not model

    def test_for_a_model_of_another_class(self) -> None:
        class Other(Transformer):
            pass

        model = model_of()
        model.__class__ = Other
        assert bind(model) is model


def test_every_preset_is_known() -> None:
    for name in ("tiny", "small", "base", "big"):
        with torch.device("meta"):
            model = build(preset(name, source_vocab=11, target_vocab=13)).eval()
        assert bind(model) is not model
