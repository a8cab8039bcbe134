"""One update: accumulation equals one large batch, nothing is averaged twice, what is not finite is found."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.errors import TrainingError
from regard.training import TrainingOptions
from regard.training.step import Updater, make_optimizer

# sums in another order: one rounding each; float64 leaves room for a handful
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def options(**changes) -> TrainingOptions:
    return TrainingOptions(**{"label_smoothing": 0.1, "clip_norm": 0.0, "weight_decay": 0.01} | changes)


def split(batch, sizes, make_pairs):
    """The same rows in several batches, each trimmed to its own longest target."""
    parts, start = [], 0
    for size in sizes:
        rows = slice(start, start + size)
        part = make_pairs([1] * size)
        lengths = (batch.target_out[rows] != 0).sum(1)
        longest = int(lengths.max())
        part.source = batch.source[rows]
        part.target_in, part.target_out = batch.target_in[rows, :longest], batch.target_out[rows, :longest]
        part.target_lengths, part.num_target_tokens = lengths, int(lengths.sum())
        part.example_ids = batch.example_ids[rows]
        parts.append(part)
        start += size
    return parts


def gradients_and_weights(make_objective, batches, dtype):
    objective = make_objective(dropout=0.0).to(dtype)
    done = Updater(objective, options())(batches, number=1, rate=1e-2)
    assert done.applied
    names = dict(objective.named_parameters())
    return done, {name: p.grad.clone() for name, p in names.items()}, {name: p.detach() for name, p in names.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [[16] * 4, [1] * 64, [60, 3, 1]])
def test_accumulation_is_one_large_batch(make_objective, make_pairs, sizes, dtype):
    lengths = [1 + 7 * row % 23 for row in range(64)]
    large = make_pairs(lengths)
    one, expected, _ = gradients_and_weights(make_objective, [large], dtype)
    many, actual, _ = gradients_and_weights(make_objective, split(large, sizes, make_pairs), dtype)
    assert one.tokens == many.tokens == sum(lengths)
    assert many.loss == pytest.approx(one.loss, rel=TOLERANCE[dtype])
    assert many.gradient_norm == pytest.approx(one.gradient_norm, rel=TOLERANCE[dtype])
    length = math.sqrt(sum(g.double().square().sum() for g in expected.values()))
    for name, gradient in expected.items():
        assert (actual[name] - gradient).norm() <= TOLERANCE[dtype] * length, name


def test_ten_updates_give_the_same_weights(make_objective, make_pairs):
    results = []
    for sizes in ([9], [4, 4, 1]):
        objective = make_objective(dropout=0.0).double()
        updater = Updater(objective, options())
        for number in range(1, 11):
            large = make_pairs([1 + (5 * row + number) % 13 for row in range(9)], seed=number)
            updater(split(large, sizes, make_pairs), number=number, rate=1e-2)
        results.append(torch.cat([p.detach().flatten() for p in objective.parameters()]))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)  # Adam divides by its own small roots


def test_against_torch_by_hand(make_objective, make_pairs):
    """The mean loss, clipped in the open, and torch's AdamW."""
    ours, theirs = make_objective(dropout=0.0).double(), make_objective(dropout=0.0).double()
    chosen = options(clip_norm=0.3)
    updater, optimizer = Updater(ours, chosen), make_optimizer(theirs, chosen)
    for number in range(1, 6):
        batch = make_pairs([3, 7, 5], seed=number)
        done = updater([batch], number=number, rate=0.01 * number)
        optimizer.zero_grad()
        loss, count = theirs(batch)
        (loss / count).backward()
        norm = math.sqrt(sum(p.grad.square().sum() for p in theirs.parameters()))
        for parameter in theirs.parameters():
            parameter.grad *= 0.3 / norm
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * number
        optimizer.step()
        assert done.gradient_norm == pytest.approx(norm, rel=1e-9)
        assert done.gradient_norm > 0.3, "or nothing was clipped"
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_how_far_the_weights_moved_is_told_now_and_then(make_objective, make_pairs):
    objective = make_objective()
    updater = Updater(objective, options())
    for number in (1, 2, 21):
        before = torch.cat([p.detach().flatten() for p in objective.parameters()])
        done = updater([make_pairs([3, 2])], number=number, rate=0.01)
        after = torch.cat([p.detach().flatten() for p in objective.parameters()])
        if number == 2:
            assert done.norms == {}
        else:
            assert done.norms["update_norm"] == pytest.approx((after - before).norm().item(), rel=1e-5)
            assert done.norms["weight_norm"] == pytest.approx(after.norm().item(), rel=1e-5)


def test_decay_is_for_matrices_only(make_objective):
    objective = make_objective()
    groups = make_optimizer(objective, options(weight_decay=0.3)).param_groups
    decayed = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in objective.named_parameters():
        assert decayed[id(parameter)] == (0.3 if parameter.ndim == 2 else 0.0), name
    assert len(decayed) == len(list(objective.parameters()))


def test_frozen_parameters_stay(make_objective, make_pairs):
    objective = make_objective()
    objective.model.mix.weight.requires_grad_(False)
    before = objective.model.mix.weight.clone()
    Updater(objective, options())([make_pairs([3, 2])], number=1, rate=0.1)
    assert torch.equal(objective.model.mix.weight, before)
    for parameter in objective.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(TrainingError, match="no parameter"):
        Updater(objective, options())


@pytest.mark.parametrize("how", ["an empty group", "no rows", "nothing but padding"])
def test_no_tokens_change_nothing(make_objective, make_pairs, how):
    empty = {"an empty group": [], "no rows": [make_pairs([])], "nothing but padding": [make_pairs([0, 0], width=3)]}[
        how
    ]
    objective = make_objective()
    before = [p.clone() for p in objective.parameters()]
    updater = Updater(objective, options())
    done = updater(empty, number=1, rate=0.1)
    assert (done.applied, done.tokens, done.loss) == (False, 0, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, objective.parameters(), strict=True))
    assert updater.memory() == {}


def test_an_empty_batch_in_a_group_does_not_count(make_objective, make_pairs):
    full = make_pairs([3, 7, 5])
    _, expected, _ = gradients_and_weights(make_objective, [full], torch.float64)
    _, actual, _ = gradients_and_weights(make_objective, [make_pairs([0], width=2), full], torch.float64)
    for name, gradient in expected.items():
        assert torch.equal(actual[name], gradient)


class Poison(nn.Module):
    """Passes its input on, and its gradient, times what it is told."""

    def __init__(self, value: float = 1.0, gradient: float = 1.0) -> None:
        super().__init__()
        self.value, self.gradient = value, gradient

    def forward(self, x):
        if self.gradient != 1.0 and x.requires_grad:
            x = x * 1.0
            x.register_hook(lambda g: g * self.gradient)
        return x * self.value


@pytest.mark.parametrize(
    ("part", "poison", "found"),
    [
        ("mix", {"value": math.nan}, r"the output of model\.mix\.1 is not finite"),
        ("norm", {"value": math.inf}, r"the output of model\.norm\.1 is not finite"),
        ("norm", {"gradient": math.nan}, r"the gradient at the output of model\.norm\.0 is not finite"),
        ("source", {"gradient": math.inf}, r"the gradient at the output of model\.source\.0 is not finite"),
    ],
)
def test_what_is_not_finite_is_found(make_objective, make_pairs, part, poison, found):
    objective = make_objective()
    setattr(objective.model, part, nn.Sequential(getattr(objective.model, part), Poison(**poison)))
    before = [p.clone() for p in objective.parameters()]
    with pytest.raises(TrainingError, match=rf"update 37 was not made: {found}, in a batch of the examples 40, 41"):
        Updater(objective, options())([make_pairs([3, 2], first_id=40)], number=37, rate=0.1)
    assert all(torch.equal(a, b) for a, b in zip(before, objective.parameters(), strict=True))
    assert not any(module._forward_hooks for module in objective.modules())


def test_the_guilty_batch_of_a_group_is_named(make_objective, make_pairs):
    objective = make_objective()
    with torch.no_grad():
        objective.model.source.weight[16] = math.inf
    good, bad, empty = make_pairs([3, 2], first_id=40), make_pairs([3, 2], first_id=70), make_pairs([])
    good.source.clamp_(max=15)
    bad.source[1, 2] = 16
    with pytest.raises(TrainingError, match=r"the weights model\.source\.weight are not finite"):
        Updater(objective, options())([empty, good, bad], number=1, rate=0.1)
    with torch.no_grad():
        objective.model.source.weight[16] = 3e38
    bad.source[1, :] = 16  # each is finite, their sum is not
    with pytest.raises(
        TrainingError, match=r"the output of model\.mix is not finite, in a batch of the examples 70, 71"
    ):
        Updater(objective, options())([empty, good, bad], number=1, rate=0.1)


def test_the_same_dropout_falls_when_the_fault_is_sought(make_objective, make_pairs):
    """A value that only one dropout mask lets through is found again."""
    objective = make_objective(dropout=0.5)
    objective.model.norm = nn.Sequential(Rare(), objective.model.norm)
    updater = Updater(objective, options())
    with pytest.raises(TrainingError, match=r"the output of model\.norm\.0 is not finite"):
        for number in range(1, 1000):
            updater([make_pairs([1], first_id=number)], number=number, rate=1e-6)
    assert number > 1, "or it was not rare"


class Rare(nn.Module):
    """NaN when all of the first five features were dropped: one mask in 32."""

    def forward(self, x):
        return x * math.nan if (x[..., :5] == 0).all() else x * 1.0


def test_bf16(make_objective, make_pairs):
    objective = make_objective(dropout=0.0)
    exact, _, _ = gradients_and_weights(make_objective, [make_pairs([3, 7, 5])], torch.float32)
    done = Updater(objective, options(precision="bf16"))([make_pairs([3, 7, 5])], number=1, rate=0.01)
    assert done.applied
    assert done.loss == pytest.approx(exact.loss, rel=2**-8)
    assert done.gradient_norm == pytest.approx(exact.gradient_norm, rel=2**-6)
    assert all(p.dtype == torch.float32 for p in objective.parameters())


def test_fp16_overflow_is_skipped_and_counts_nowhere(make_objective, make_pairs):
    objective = make_objective(dropout=0.0)
    updater = Updater(objective, options(precision="fp16"))
    updater.scale = 2.0**127  # the next gradient overflows float32 too
    before = [p.clone() for p in objective.parameters()]
    done = updater([make_pairs([3, 7, 5])], number=1, rate=0.01)
    assert not done.applied
    assert updater.scale == 2.0**126
    assert updater.memory() == {}
    assert all(torch.equal(a, b) for a, b in zip(before, objective.parameters(), strict=True))
    updater.scale, updater.clean = 2.0**10, 1999
    done = updater([make_pairs([3, 7, 5])], number=1, rate=0.01)
    exact, _, _ = gradients_and_weights(make_objective, [make_pairs([3, 7, 5])], torch.float32)
    assert done.applied
    assert done.gradient_norm == pytest.approx(exact.gradient_norm, rel=2**-8), "logged without the scale"
    assert (updater.scale, updater.clean) == (2.0**11, 0)


def test_what_is_clipped_has_no_scale_any_more(make_objective, make_pairs):
    means = []
    for precision in ("fp32", "fp16"):
        updater = Updater(make_objective(dropout=0.0), options(precision=precision, clip_norm=0.3))
        assert updater([make_pairs([3, 7, 5])], number=1, rate=0.01).gradient_norm > 0.3, "or nothing was clipped"
        means.append(torch.cat([m.flatten() for name, m in updater.memory().items() if name.endswith("exp_avg")]))
    exact, half = means
    assert (half - exact).norm() < 2**-7 * exact.norm()


def test_fp16_gives_up_when_no_scale_helps(make_objective, make_pairs):
    objective = make_objective(dropout=0.0)
    objective.model.norm = nn.Sequential(objective.model.norm, Poison(gradient=math.nan))
    updater = Updater(objective, options(precision="fp16"))
    with pytest.raises(TrainingError, match="the gradient at the output"):
        for _ in range(100):
            assert not updater([make_pairs([3])], number=1, rate=0.01).applied
