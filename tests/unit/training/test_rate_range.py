"""The range test rises by one factor, stops when it has seen enough, and suggests where the loss falls fastest."""

from __future__ import annotations

import itertools
import math

import pytest

from regard.errors import RecipeError
from regard.training import TrainingOptions
from regard.training.rate_range import RatePoint, rate_range, suggested_rate


def made(loss, rates=None) -> list[RatePoint]:
    return [RatePoint(rate, loss(math.log10(rate))) for rate in rates or [10 ** (k / 10 - 6) for k in range(61)]]


def test_where_the_loss_falls_fastest():
    # a fall centred on 1e-3, a floor, and a rise after 1e-1
    assert suggested_rate(made(lambda x: 8 - 5 / (1 + math.exp(-4 * (x + 3))) + max(0, x + 1) * 9)) == pytest.approx(
        1e-3
    )


def test_never_near_the_rate_that_is_too_high():
    points = made(lambda x: 8 - x - 6 if x <= -1 else 50 + x)  # a straight fall, then a wall at 1e-1
    assert suggested_rate(points) <= 1e-1 / 3 * 1.0001
    steeper = made(lambda x: -((x + 6) ** 3) if x <= -1 else 50 + x)  # fastest just before the wall
    assert suggested_rate(steeper) == pytest.approx(1e-1 / 3)


@pytest.mark.parametrize("loss", [lambda x: 5.0, lambda x: 5 + x])
def test_a_loss_that_falls_nowhere(loss):
    assert suggested_rate(made(loss)) is None
    assert suggested_rate([]) is None


def test_on_a_model(make_objective, Corpus):
    batches = itertools.chain.from_iterable(Corpus().epoch(epoch) for epoch in itertools.count())
    points = rate_range(make_objective(), batches, TrainingOptions(clip_norm=0), lowest=1e-5, highest=30.0, updates=41)
    ratios = [b.rate / a.rate for a, b in itertools.pairwise(points)]
    assert ratios == pytest.approx([3e6 ** (1 / 40)] * len(ratios))
    assert points[0].rate == 1e-5
    assert points[0].loss > min(point.loss for point in points)
    assert len(points) < 41, "the highest rates spoil the model, and it ends"
    assert points[-1].loss > 1.3 * min(point.loss for point in points)
    assert 1e-5 < suggested_rate(points) < 1


def test_it_ends_where_a_number_is_not_finite(make_objective, Corpus):
    points = rate_range(make_objective(), Corpus(7).epoch(0), TrainingOptions(), lowest=1e-3, highest=1e38, updates=7)
    assert 1 <= len(points) < 7


def test_the_mean_is_not_biased_to_its_beginning(make_objective, make_pairs):
    batch = make_pairs([3, 5])
    first, *_ = rate_range(make_objective(dropout=0.0), [batch, batch], TrainingOptions(label_smoothing=0.0), updates=2)
    loss, tokens = make_objective(dropout=0.0)(batch)
    assert first.loss == pytest.approx(float(loss.detach()) / tokens, rel=1e-6)


@pytest.mark.parametrize("how", [{"lowest": 1.0}, {"lowest": 0.0}, {"highest": math.inf}, {"updates": 1}])
def test_rates_that_do_not_rise(make_objective, how):
    with pytest.raises(RecipeError, match="must rise from above 0"):
        rate_range(make_objective(), [], TrainingOptions(), **how)
