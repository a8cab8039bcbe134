"""The objective of classes: worked by hand, class 0 counts, weights weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.training import ClassObjective, class_cross_entropy
from regard.training.class_objective import UNCOUNTED


@dataclass
class Labelled:
    frames: Tensor
    lengths: Tensor | None
    labels: Tensor
    example_ids: tuple[int, ...] = ()


class Means(nn.Module):
    """Gives the mean over the real frames of each number as a logit."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, frames: Tensor, lengths: Tensor | None) -> Tensor:
        count = torch.full((len(frames),), frames.size(1)) if lengths is None else lengths
        return self.scale * frames.sum(dim=1) / count[:, None]


def test_by_hand() -> None:
    # p = (1/2, 1/4, 1/4): the label 0 costs log 2 and the mean over the classes is (log 2 + 2 log 4) / 3
    logits = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log()
    label = torch.tensor([0])
    smooth = 0.8 * math.log(2) + 0.2 * (math.log(2) + 2 * math.log(4)) / 3
    assert float(class_cross_entropy(logits, label)) == pytest.approx(math.log(2))
    assert float(class_cross_entropy(logits, label, 0.2)) == pytest.approx(smooth)
    weights = torch.tensor([3.0, 1.0, 1.0], dtype=torch.float64)
    assert float(class_cross_entropy(logits, label, 0.2, weights)) == pytest.approx(3 * smooth)


def test_an_impossible_class_costs_nothing_without_smoothing() -> None:
    logits = torch.tensor([[0.0, -math.inf, math.log(3)]], dtype=torch.float64, requires_grad=True)
    loss = class_cross_entropy(logits, torch.tensor([2]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(4 / 3))
    assert logits.grad is not None and logits.grad[0].tolist() == pytest.approx([0.25, 0.0, -0.25])


def test_sums_over_rows_as_torch_does() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (7,), generator=generator)
    expected = nn.functional.cross_entropy(logits, labels, label_smoothing=0.3, reduction="sum")
    assert float(class_cross_entropy(logits, labels, 0.3)) == pytest.approx(float(expected))


def test_the_module_counts_rows_and_hands_lengths_on() -> None:
    batch = Labelled(
        torch.tensor([[[2.0, 0.0], [9.0, 9.0]], [[0.0, 0.0], [0.0, 2.0]]]), torch.tensor([1, 2]), torch.tensor([0, 1])
    )
    objective = ClassObjective(Means(), weights=torch.tensor([1.0, 0.0]))
    loss, count = objective(batch)
    assert count == 2
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)))  # the second row weighs nothing, the 9s are padding
    loss.backward()
    assert "weights" not in objective.state_dict()


def test_a_row_that_does_not_count_costs_nothing() -> None:
    frames = torch.tensor([[[2.0, 0.0]], [[5.0, 3.0]]])
    objective = ClassObjective(Means(), 0.1, torch.tensor([1.0, 7.0]))
    alone, _ = objective(Labelled(frames[:1], None, torch.tensor([1])))
    loss, count = objective(Labelled(frames, None, torch.tensor([1, UNCOUNTED])))
    assert (loss.item(), count) == (alone.item(), 1)
    objective.zero_grad()
    nothing, count = objective(Labelled(frames[1:], None, torch.tensor([UNCOUNTED])))
    nothing.backward()
    assert (nothing.item(), count) == (0, 0)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in objective.parameters())
