"""A sentence is answered the same whatever stands beside it: padding, mates, order.

Tolerances: matrix products of another size round differently. 1e-5 in float32, 1e-12 in float64, at logits of size one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from properties.specs import NORMS, POSITIONS, VOCAB, random_ids, random_model, small
from regard.models import Dropout, TransformerSpec, build
from regard.training.objective import Seq2SeqObjective, smoothed_cross_entropy

TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}
SOURCE_LENGTHS, TARGET_LENGTHS = [7, 2, 5, 3], [3, 11, 5, 1]


@torch.no_grad()
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_mates_and_order_change_nothing(positions: str, norm: str, dtype: torch.dtype) -> None:
    model = random_model(small(positions, norm), dtype)
    source, target = random_ids(SOURCE_LENGTHS, seed=1), random_ids(TARGET_LENGTHS, seed=2)
    together = model(source, target)

    def same(row: int, logits: Tensor, what: str) -> None:
        real = TARGET_LENGTHS[row]
        torch.testing.assert_close(logits[:real], together[row, :real], rtol=0, atol=TOLERANCES[dtype], msg=what)

    order = torch.tensor([2, 0, 3, 1])
    moved = model(source[order], target[order])
    # 41 keys are past the boundary from which on the fused kernel is used
    padded = model(F.pad(source, (0, 41)), F.pad(target, (0, 37)))
    for row, (source_length, target_length) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = slice(row, row + 1)
        same(row, model(source[alone, :source_length], target[alone, :target_length])[0], "alone")
        same(row, moved[int((order == row).nonzero())], "order")
        same(row, padded[row], "padding")
        other_source, other_target = random_ids([7, 11, 2, 5], seed=3), random_ids([2, 13, 7, 5], seed=4)
        other_source[row] = F.pad(source[row], (0, 4))
        other_target[row] = F.pad(target[row], (0, 2))
        same(row, model(other_source, other_target)[row], "mates")


@torch.no_grad()
@pytest.mark.parametrize("d_model", [1, 3, 5, 7, 127])
def test_odd_widths_work(d_model: int) -> None:
    spec = TransformerSpec(11, 13, d_model=d_model, num_heads=1, d_ff=5, encoder_layers=1, decoder_layers=1)
    logits = build(spec)(random_ids([7, 2], seed=1).clamp(max=10), random_ids([3, 5], seed=2))
    assert logits.shape == (2, 5, 13) and logits.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative-bias", "none"])
def test_weights_move_to_another_max_len_and_back(positions: str) -> None:
    """Tables are made anew, never saved, so the longest length is not part of the weights."""
    short, long = random_model(small(positions, max_len=31)), random_model(small(positions, max_len=67), seed=2)
    source, target = random_ids(SOURCE_LENGTHS, seed=1), random_ids(TARGET_LENGTHS, seed=2)
    expected = short(source, target)
    long.load_state_dict(short.state_dict())
    assert torch.equal(long(source, target), expected)
    short.load_state_dict(long.state_dict())
    assert torch.equal(short(source, target), expected)


# ---- the loss ------------------------------------------------------------------------------------------------------


@dataclass
class Pairs:
    """A batch."""

    source: Tensor
    source_lengths: Tensor | None
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor | None
    num_target_tokens: int
    example_ids: list[int]


def pairs(rows: list[int], extra: int = 0) -> Pairs:
    """Return the named ones of twelve pairs of very unequal lengths, with ``extra`` more columns of padding."""
    source_lengths, target_lengths = [2, 13, 3, 5, 1, 7, 11, 2, 3, 1, 5, 7], [11, 1, 2, 7, 3, 17, 1, 5, 2, 13, 1, 3]
    source, target = random_ids(source_lengths, seed=1)[rows], random_ids(target_lengths, seed=2)[rows]
    lengths = [target_lengths[row] for row in rows]
    source_lengths = [source_lengths[row] for row in rows]
    source, target = F.pad(source[:, : max(source_lengths)], (0, extra)), F.pad(target[:, : max(lengths)], (0, extra))
    return Pairs(
        source=source,
        source_lengths=torch.tensor(source_lengths),
        target_in=F.pad(target, (1, -1), value=2).masked_fill(target == 0, 0),
        target_out=target,
        target_lengths=torch.tensor(lengths),
        num_target_tokens=sum(lengths),
        example_ids=rows,
    )


def loss_and_gradients(objective: Seq2SeqObjective, batches: list[Pairs]) -> tuple[Tensor, list[Tensor]]:
    """Sum over ``batches`` as training does: sums and counts travel, the average is taken once."""
    objective.zero_grad()
    total, count = torch.zeros((), dtype=torch.float64), 0
    for batch in batches:
        loss, tokens = objective(batch)
        loss.backward()
        total, count = total + loss.detach(), count + tokens
    return total / count, [p.grad / count for p in objective.parameters() if p.grad is not None]


def assert_same(ours: tuple[Tensor, list[Tensor]], expected: tuple[Tensor, list[Tensor]]) -> None:
    torch.testing.assert_close(ours[0], expected[0], rtol=1e-12, atol=0)
    for gradient, other in zip(ours[1], expected[1], strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_padding_costs_nothing_and_teaches_nothing(smoothing: float) -> None:
    objective = Seq2SeqObjective(random_model(small()), smoothing)
    rows = list(range(12))
    expected = loss_and_gradients(objective, [pairs(rows)])
    for extra in (10, 40):
        assert_same(loss_and_gradients(objective, [pairs(rows, extra)]), expected)


@pytest.mark.parametrize("size", [1, 4, 5, 7])  # the last group is not full at 5 and 7
def test_a_batch_in_pieces_is_the_batch(size: int) -> None:
    objective = Seq2SeqObjective(random_model(small(tie="all")), 0.1)
    rows = list(range(12))
    pieces = [pairs(rows[start : start + size]) for start in range(0, 12, size)]
    assert_same(loss_and_gradients(objective, pieces), loss_and_gradients(objective, [pairs(rows)]))


def test_a_mean_of_means_would_have_been_seen() -> None:
    """The lengths above are unequal enough to tell the two apart."""
    objective = Seq2SeqObjective(random_model(small()), 0.1)
    means = [loss_and_gradients(objective, [pairs([row])])[0] for row in range(12)]
    whole, _ = loss_and_gradients(objective, [pairs(list(range(12)))])
    assert abs(sum(means) / 12 - whole) > 1e-2


@given(st.integers(0, 2**16), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
@settings(max_examples=50, derandomize=True)
def test_smoothed_loss_is_finite_where_a_class_is_impossible(seed: int, smoothing: float, any_padding: bool) -> None:
    """Batches with and without padding; a class at -inf that nothing asks for costs nothing without smoothing."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, VOCAB, generator=generator, dtype=torch.float64)
    labels = torch.randint(1, VOCAB - 1, (7,), generator=generator)
    if any_padding:
        labels[::2] = 0
    expected: Any = F.cross_entropy(logits, labels, ignore_index=0, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, smoothing), expected, rtol=1e-12, atol=1e-12)
    if not smoothing:
        logits[:, -1] = -torch.inf
        assert smoothed_cross_entropy(logits, labels, smoothing).isfinite()


def test_dropout_is_left_out_of_evaluation_alone() -> None:
    model = build(small(dropout=Dropout(0.5, 0.5, 0.5, 0.5)))
    source, target = random_ids(SOURCE_LENGTHS, seed=1), random_ids(TARGET_LENGTHS, seed=2)
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))
