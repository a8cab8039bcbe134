"""The classifier: frames in, logits out, and padding changes nothing.

Everything runs in float64, so that equal means equal to 1e-12: a few roundings of numbers of about one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from regard.errors import ShapeError
from regard.models import (
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    SequenceClassifier,
    Sinusoidal,
    build_classifier,
)

SPEC = ClassifierSpec(
    num_classes=5, num_features=2, d_model=12, num_heads=3, d_ff=17, max_len=41, dropout=Dropout(0.0, 0.0, 0.0, 0.0)
)
READOUTS = ["mean", "cls", "last", "attention"]
POSITIONS = [Sinusoidal(), Learned(), Rotary(), RelativeBias(8, 20), NoPositions()]
EVERY = list(product(READOUTS, POSITIONS))

LENGTHS = torch.tensor([7, 4, 1])
FRAMES = torch.randn(3, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def model_of(**changes: Any) -> SequenceClassifier:
    torch.manual_seed(0)
    model = build_classifier(replace(SPEC, **changes)).double().eval()
    with torch.no_grad():  # away from zero biases, equal norms and a query of zeros
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("readout", "positions"), EVERY)
def test_gives_the_logits_of_each_class(readout: str, positions: Any) -> None:
    model = model_of(readout=readout, positions=positions)
    assert model(FRAMES).shape == (3, 5)
    close(model(FRAMES, LENGTHS), model.output(model.encode(FRAMES, LENGTHS)))


@pytest.mark.parametrize(("readout", "positions"), EVERY)
def test_padding_and_batch_mates_change_nothing(readout: str, positions: Any) -> None:
    model = model_of(readout=readout, positions=positions)
    logits = model(FRAMES, LENGTHS)
    changed = FRAMES.masked_fill((torch.arange(7) >= LENGTHS[:, None])[:, :, None], 1e6)
    assert torch.equal(model(changed, LENGTHS), logits)
    close(model(torch.nn.functional.pad(FRAMES, (0, 0, 0, 31)), LENGTHS), logits)
    for row, length in enumerate(LENGTHS.tolist()):
        close(model(FRAMES[row, None, :length]), logits[row, None])


FRONTS = [{"convolutions": 2, "kernel": 3}, {"window": 3, "stride": 2}, {"convolutions": 1, "window": 4, "stride": 4}]


@pytest.mark.parametrize("fronts", FRONTS)
@pytest.mark.parametrize("readout", READOUTS)
def test_padding_changes_nothing_behind_fronts(readout: str, fronts: dict[str, Any]) -> None:
    model = model_of(readout=readout, positions=Learned(), **fronts)
    logits = model(FRAMES, LENGTHS)
    changed = FRAMES.masked_fill((torch.arange(7) >= LENGTHS[:, None])[:, :, None], 1e6)
    assert torch.equal(model(changed, LENGTHS), logits)
    close(model(torch.nn.functional.pad(FRAMES, (0, 0, 0, 31)), LENGTHS), logits)
    for row, length in enumerate(LENGTHS.tolist()):
        close(model(FRAMES[row, None, :length]), logits[row, None])


@pytest.mark.parametrize("readout", READOUTS)
def test_full_lengths_are_no_lengths(readout: str) -> None:
    model = model_of(readout=readout)
    close(model(FRAMES, torch.tensor([7, 7, 7])), model(FRAMES))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("residual", ["pre", "post", "none"])
def test_every_parameter_gets_a_finite_gradient(readout: str, residual: str) -> None:
    model = model_of(readout=readout, residual=residual)
    model(FRAMES, LENGTHS).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.ne(0).any(), name


@pytest.mark.parametrize("positions", POSITIONS)
def test_only_positions_tell_the_order(positions: Any) -> None:
    model = model_of(positions=positions)
    assert torch.allclose(model(FRAMES.flip(1)), model(FRAMES), atol=1e-12) == isinstance(positions, NoPositions)


def test_without_residuals_a_layer_hears_its_sublayers_alone() -> None:
    model = model_of(residual="none", layers=1, final_norm=False, positions=NoPositions())
    (layer,) = model.encoder.layers
    x = model.embedding(FRAMES)
    x = layer.self_attention(layer.self_residual.norm(x))
    x = layer.feed_forward(layer.feed_forward_residual.norm(x))
    close(model(FRAMES), model.output(x.mean(dim=1)))


@pytest.mark.parametrize("positions", [Sinusoidal(), Learned(), Rotary()])
@pytest.mark.parametrize("readout", ["mean", "cls"])
def test_the_longest_sequence_fits_and_no_longer_one(positions: Any, readout: str) -> None:
    model = model_of(positions=positions, readout=readout)
    model(torch.zeros(2, 41, 2, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"does not fit .* positions with max_len = 4[12]"):
        model(torch.zeros(2, 42, 2, dtype=torch.float64))


@pytest.mark.usefixtures("unchecked")
def test_frames_of_another_width_are_refused_in_words() -> None:
    with pytest.raises(ShapeError, match=r"frames must be \[B, L, 2\], but have shape \[3, 7\]"):
        model_of()(torch.zeros(3, 7, dtype=torch.float64))


def test_a_row_without_frames_gives_finite_logits_and_gradients() -> None:
    for readout in READOUTS:
        model = model_of(readout=readout)
        logits = model(FRAMES, torch.tensor([7, 0, 1]))
        assert logits.isfinite().all()
        logits.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
