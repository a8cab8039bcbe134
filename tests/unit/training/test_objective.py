"""The smoothed loss against numbers worked by hand and torch's own; the chunked twin against the plain formula."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.protocols import PAD
from regard.training import chunked_cross_entropy, smoothed_cross_entropy
from regard.training.objective import ChunkedCrossEntropy

N, D, V = 53, 11, 37
# one rounding per sum: the two paths add the same terms in another order
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def worked(smoothing: float) -> float:
    """Logits (0, ln 2, ln 5), label 1: p = (1/8, 2/8, 5/8)."""
    return (1 - smoothing) * math.log(4) + smoothing * (math.log(8) + math.log(4) + math.log(8 / 5)) / 3


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_worked_by_hand(smoothing):
    logits = torch.tensor([[0.0, math.log(2), math.log(5)], [7.0, -3.0, 2.0]], dtype=torch.float64)
    loss = smoothed_cross_entropy(logits, torch.tensor([1, PAD]), smoothing)
    assert loss.item() == pytest.approx(worked(smoothing), rel=1e-14)
    identity = torch.eye(3, dtype=torch.float64)
    chunked = chunked_cross_entropy(logits[:1], identity, None, torch.tensor([1]), smoothing)
    assert chunked.item() == pytest.approx(worked(smoothing), rel=1e-14)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_plain_agrees_with_torch(smoothing):
    torch.manual_seed(1)
    logits, labels = torch.randn(N, V, dtype=torch.float64), torch.randint(1, V, (N,))
    theirs = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, smoothing), theirs, rtol=1e-14, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_padding_and_nothing_but_padding(smoothing):
    logits = torch.randn(3, V)
    assert math.isfinite(smoothed_cross_entropy(logits, torch.tensor([5, 6, 7]), smoothing).item())
    assert smoothed_cross_entropy(logits, torch.zeros(3, dtype=torch.int64), smoothing).item() == 0.0


def test_a_silenced_class_costs_nothing_without_smoothing():
    logits = torch.tensor([[0.0, -math.inf, math.log(3)]], dtype=torch.float64)
    assert smoothed_cross_entropy(logits, torch.tensor([2]), 0.0).item() == pytest.approx(math.log(4 / 3))
    hidden = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    weight = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    loss = chunked_cross_entropy(hidden, weight, logits[0], torch.tensor([2]), 0.0)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(4 / 3))
    assert torch.isfinite(hidden.grad).all()
    assert weight.grad[:, 0].tolist() == pytest.approx([0.25, 0.0, -0.25])


def tensors(dtype: torch.dtype, with_bias: bool) -> list[torch.Tensor]:
    torch.manual_seed(2)
    made = [torch.randn(N, D, dtype=dtype), torch.randn(V, D, dtype=dtype), torch.randn(V, dtype=dtype)]
    return [t.requires_grad_() for t in made[: 3 if with_bias else 2]]


@pytest.mark.parametrize("chunk_rows", [1, 7, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chunked_equals_plain(dtype, with_bias, smoothing, chunk_rows):
    inputs = tensors(dtype, with_bias)
    hidden, weight, bias = [*inputs, None][:3]
    labels = torch.randint(1, V, (N,))
    plain = smoothed_cross_entropy(F.linear(hidden, weight, bias), labels, smoothing)
    chunked = chunked_cross_entropy(hidden, weight, bias, labels, smoothing, chunk_rows=chunk_rows)
    assert abs((chunked - plain) / plain) <= TOLERANCE[dtype]
    for ours, theirs in zip(
        torch.autograd.grad(3 * chunked, inputs), torch.autograd.grad(3 * plain, inputs), strict=True
    ):
        assert (ours - theirs).norm() <= TOLERANCE[dtype] * theirs.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_words_too_improbable_for_a_float_cost_what_they_cost(dtype):
    torch.manual_seed(5)
    bias = torch.randn(V, dtype=dtype)
    # probabilities at e^-95, a float32 with digits lost, and where float64 has no number left
    bias[2], bias[3], bias[5], bias[7] = -95.0, -300.0, -2000.0, -math.inf
    hidden, weight = torch.randn(N, D, dtype=dtype), torch.randn(V, D, dtype=dtype) / 10
    labels = torch.randint(11, V, (N,))
    labels[::3], labels[1::5], labels[7] = 2, 3, 5
    plain = smoothed_cross_entropy(F.linear(hidden, weight, bias), labels, 0.0)
    chunked = chunked_cross_entropy(hidden, weight, bias, labels, 0.0, chunk_rows=11)
    assert abs((chunked - plain) / plain) <= TOLERANCE[dtype]
    labels[13] = 7
    assert chunked_cross_entropy(hidden, weight, bias, labels, 0.0, chunk_rows=11).item() == math.inf


def test_gradcheck():
    torch.manual_seed(3)
    sizes = ((5, 3), (7, 3), (7,))
    inputs = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    labels = torch.randint(1, 7, (5,))
    assert torch.autograd.gradcheck(lambda h, w, b: chunked_cross_entropy(h, w, b, labels, 0.1, chunk_rows=2), inputs)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_only_wanted_gradients_are_made(frozen):
    inputs = tensors(torch.float64, True)
    inputs[frozen].requires_grad_(False)
    labels = torch.randint(1, V, (N,))
    chunked_cross_entropy(*inputs, labels, 0.1).backward()
    assert [t.grad is None for t in inputs] == [i == frozen for i in range(3)]


def test_no_gradient_work_in_validation(monkeypatch):
    hidden, weight, bias = tensors(torch.float32, True)
    labels = torch.randint(1, V, (N,))
    expected = chunked_cross_entropy(hidden, weight, bias, labels, 0.1)
    monkeypatch.setattr(ChunkedCrossEntropy, "apply", lambda *_: pytest.fail("the autograd path was taken"))
    with torch.no_grad():
        assert torch.equal(chunked_cross_entropy(hidden, weight, bias, labels, 0.1), expected.detach())


def test_no_tokens():
    inputs = tensors(torch.float32, True)
    loss = chunked_cross_entropy(inputs[0][:0], *inputs[1:], torch.zeros(0, dtype=torch.int64), 0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert inputs[1].grad.abs().sum() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    inputs = tensors(torch.float32, True)
    labels = torch.randint(1, V, (N,))
    exact = chunked_cross_entropy(*inputs, labels, 0.1)
    expected = torch.autograd.grad(exact, inputs)
    with torch.autocast("cpu", dtype=dtype):
        loss = chunked_cross_entropy(*inputs, labels, 0.1)
    assert loss.dtype == torch.float32
    # a logit loses about eps of itself to rounded inputs, and the mean over tokens rather less
    assert abs(loss - exact) <= torch.finfo(dtype).eps / 2 * exact
    # gradients are products of two rounded factors, from rounded logits
    bound = 4 * torch.finfo(dtype).eps
    for ours, theirs in zip(torch.autograd.grad(loss, inputs), expected, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= bound * theirs.norm()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_padding_changes_nothing(make_objective, make_pairs, smoothing):
    objective = make_objective(dropout=0.0, smoothing=smoothing).double()
    narrow, wide = make_pairs([3, 7, 5]), make_pairs([3, 7, 5])
    pad = 13
    wide.target_in, wide.target_out = F.pad(wide.target_in, (0, pad)), F.pad(wide.target_out, (0, pad))
    results = []
    for batch in (narrow, wide):
        loss, count = objective(batch)
        assert count == 15
        results.append((loss, *torch.autograd.grad(loss, list(objective.parameters()))))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_tied_weight_gets_both_gradients(make_objective, make_pairs):
    """The chunked objective against plain logits through the same tied model."""
    objective, batch = make_objective(dropout=0.0).double(), make_pairs([3, 7, 5])
    model = objective.model
    loss, _ = objective(batch)
    logits = model.output(model.hidden(batch.source, batch.target_in, batch.source_lengths))
    plain = smoothed_cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), 0.1)
    ours, theirs = (torch.autograd.grad(x, model.target.weight)[0] for x in (loss, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_unpadded_batch_needs_no_mask(make_objective, make_pairs):
    objective, batch = make_objective(dropout=0.0), make_pairs([5, 5, 5])
    assert batch.target_lengths is None
    expected = objective(batch)[0]
    batch.target_lengths = torch.tensor([5, 5, 5])
    assert torch.equal(objective(batch)[0], expected)


def test_nll_is_unsmoothed_and_without_gradient(make_objective, make_pairs):
    objective, batch = make_objective(dropout=0.0, smoothing=0.3), make_pairs([3, 7, 5])
    total, count = objective.nll(batch)
    model = objective.model
    logits = model.output(model.hidden(batch.source, batch.target_in, None))
    theirs = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(total, theirs)
    assert count == 15
    assert not total.requires_grad


def test_works_with_an_untied_output_without_bias(make_objective, make_pairs):
    objective = make_objective(dropout=0.0)
    objective.model.output = nn.Linear(11, 19, bias=False)
    loss, count = objective(make_pairs([3, 2]))
    loss.backward()
    assert count == 5
    assert objective.model.output.weight.grad.abs().sum() > 0
