"""A search begins with what `Transformer.start` gives, however its sources are grouped.

Float64, so that equal means equal to 1e-12: a few roundings of numbers of about one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.models import Rotary, Transformer, bind, starting
from regard.models.starting import start_by_length
from unit.models.steps import close, model_of, sources

LENGTHS = (7, 1, 5, 2, 0, 3, 7)


@pytest.fixture(autouse=True)
def few_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "TOGETHER", 3)


def encodings(model: Transformer) -> list[tuple[int, ...]]:
    """Return a list that the shape of each encoded source is added to."""
    shapes: list[tuple[int, ...]] = []
    encode = model.encode

    def noted(source: Tensor, lengths: Tensor | None = None) -> Tensor:
        shapes.append(tuple(source.shape))
        return encode(source, lengths)

    model.encode = noted  # type: ignore[method-assign]
    return shapes


@torch.inference_mode()
def test_keys_and_values_are_those_of_the_model() -> None:
    model = model_of(positions=Rotary())
    source, lengths = sources(*LENGTHS)
    assert lengths is not None
    shapes = encodings(model)
    found = start_by_length(model, source, lengths)
    assert shapes == [(3, 7), (3, 3), (1, 1)]
    for one, other in zip(found.memory, model.start(source, lengths).memory, strict=True):
        for row, length in enumerate(lengths.tolist()):
            for mine, theirs in ((one.keys, other.keys), (one.values, other.values)):
                torch.testing.assert_close(mine[row, :, :length], theirs[row, :, :length], rtol=1e-12, atol=1e-12)
                assert mine.shape == theirs.shape


@pytest.mark.parametrize("lengths", [LENGTHS, (1, 2, 3, 4, 5, 6, 7), (0, 0, 0, 0, 6)])
def test_a_search_goes_on_as_the_models(lengths: tuple[int, ...]) -> None:
    model = model_of()
    close(bind(model), model, *sources(*lengths))


@pytest.mark.parametrize("lengths", [(7, 7, 7, 7, 6, 7, 7), (7, 1)])
def test_where_little_is_saved_all_are_encoded_at_once(lengths: tuple[int, ...]) -> None:
    model = model_of()
    shapes = encodings(model)
    source, real = sources(*lengths)
    assert real is not None
    start_by_length(model, source, real)
    assert shapes == [(len(lengths), 7)]


class Centred(nn.LayerNorm):
    """A norm in which each source depends on its mates."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input - input.mean(dim=0, keepdim=True))


def exchange(model: Transformer) -> None:
    model.encoder.layers[0].self_residual.norm.__class__ = Centred


def hook(model: Transformer) -> None:
    model.encoder.register_forward_hook(lambda *_: None)


def listen(model: Transformer) -> None:
    model.encoder.layers[1].self_attention.listen(lambda weights: None)


@pytest.mark.parametrize("change", [exchange, hook, listen])
def test_an_encoder_that_is_watched_or_not_known_has_all_of_them(change: Callable[[Transformer], None]) -> None:
    model = model_of()
    change(model)
    encoded: list[int] = []
    embed = model.source_embedding.forward
    decoder = bind(model)
    assert decoder is not model
    model.source_embedding.forward = lambda ids, offset=0: encoded.append(len(ids)) or embed(ids, offset)  # type: ignore[method-assign, func-returns-value]
    decoder.start(*sources(*LENGTHS))
    assert encoded == [7]
