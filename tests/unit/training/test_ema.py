"""The moving average is the formula, leaves the weights alone, and outlives a stop to the last bit."""

from __future__ import annotations

import torch
from torch import nn

from regard.training.ema import MovingAverage
from regard.training.weights import from_bytes


def test_by_hand():
    """From 8 with weights 0 and 0: d is 2/11 after update 1 and, capped, 0.2 after update 2."""
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(module.weight, 8.0)
    average = MovingAverage(module, 0.2)
    nn.init.zeros_(module.weight)
    average.update(1)
    torch.testing.assert_close(average.averages[0], torch.tensor([[8 * 2 / 11]], dtype=torch.float64))
    average.update(2)
    torch.testing.assert_close(average.averages[0], torch.tensor([[8 * 2 / 11 * 0.2]], dtype=torch.float64))
    with average.in_place():
        assert module.weight.item() == average.averages[0].item() > 0.2
    assert module.weight.item() == 0


def test_kept_and_taken_back(make_objective):
    objective = make_objective()
    objective.model.mix.weight.requires_grad_(False)  # what is frozen has no average
    average = MovingAverage(objective, 0.9)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter += 1
    average.update(1)
    data = average.to_bytes()
    before = [p.clone() for p in objective.parameters()]
    again = MovingAverage(objective, 0.9)
    again.restore(data)
    assert all(torch.equal(a, b) for a, b in zip(average.averages, again.averages, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, objective.parameters(), strict=True))
    names = [name for name, p in objective.named_parameters() if p.requires_grad]
    assert len(again.averages) == len(names) == len(list(objective.parameters())) - 1
    stored = from_bytes(data)
    assert torch.equal(stored["model.mix.weight"], objective.model.mix.weight)
    assert all(torch.equal(stored[name], value) for name, value in zip(names, again.averages, strict=True))
